"""Real processes that are killed, stalled and starved at random, and what must hold afterwards."""
