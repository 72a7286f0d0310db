"""Things that tests run against: real programs of our own, never stand-ins for what can run."""
