"""The write path: what is learned → deduplicated → PostgreSQL, truth and outbox in one transaction."""

from pegas_memory.pipeline.jobs import JobRunner
from pegas_memory.pipeline.learn import Learned, Learner, Lesson, Recent

__all__ = ["JobRunner", "Learned", "Learner", "Lesson", "Recent"]
