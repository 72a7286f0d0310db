"""The outbox: what changed, and how far each projection has come.

A row carries the id of the transaction that wrote it. A consumer's position is a ``pg_snapshot``;
what it has not seen is what is visible now and was not visible in the position. A batch is a slice
of a *window*: everything between the position and a later snapshot, ordered by (xid, seq). When the
window is used up, its end becomes the position. So nothing is skipped however transactions
interleave, and one that stays open holds nobody up.

The position says what can be found; ``durable`` says what survives a crash of the target. A consumer
that starts goes back to ``durable`` and repeats the rest, which is harmless; pruning keeps what any
consumer may have to repeat.
"""

from __future__ import annotations

from pegas_memory.db.outbox.failures import MAX_ATTEMPTS as MAX_ATTEMPTS
from pegas_memory.db.outbox.failures import Failure as Failure
from pegas_memory.db.outbox.failures import clear_failures as clear_failures
from pegas_memory.db.outbox.failures import due_failures as due_failures
from pegas_memory.db.outbox.failures import failed_count as failed_count
from pegas_memory.db.outbox.failures import failures as failures
from pegas_memory.db.outbox.failures import forgive as forgive
from pegas_memory.db.outbox.failures import note_failure as note_failure
from pegas_memory.db.outbox.failures import replay as replay
from pegas_memory.db.outbox.failures import take_one as take_one
from pegas_memory.db.outbox.filling import FILLABLE as FILLABLE
from pegas_memory.db.outbox.filling import Backfill as Backfill
from pegas_memory.db.outbox.filling import backfill_advance as backfill_advance
from pegas_memory.db.outbox.filling import backfill_of as backfill_of
from pegas_memory.db.outbox.filling import backfill_page as backfill_page
from pegas_memory.db.outbox.filling import pass_page as pass_page
from pegas_memory.db.outbox.filling import take_page as take_page
from pegas_memory.db.outbox.filling import to_be_filled as to_be_filled
from pegas_memory.db.outbox.generations import begin_building as begin_building
from pegas_memory.db.outbox.generations import building_name as building_name
from pegas_memory.db.outbox.generations import discard_building as discard_building
from pegas_memory.db.outbox.generations import generation_of as generation_of
from pegas_memory.db.outbox.generations import promote as promote
from pegas_memory.db.outbox.generations import refill as refill
from pegas_memory.db.outbox.generations import serving_generation as serving_generation
from pegas_memory.db.outbox.generations import start_over as start_over
from pegas_memory.db.outbox.positions import Batch as Batch
from pegas_memory.db.outbox.positions import PositionMoved as PositionMoved
from pegas_memory.db.outbox.positions import advance as advance
from pegas_memory.db.outbox.positions import note_error as note_error
from pegas_memory.db.outbox.positions import register as register
from pegas_memory.db.outbox.positions import reset_position as reset_position
from pegas_memory.db.outbox.positions import rewind as rewind
from pegas_memory.db.outbox.positions import settle_durable as settle_durable
from pegas_memory.db.outbox.positions import take as take
from pegas_memory.db.outbox.progress import ConsumerState as ConsumerState
from pegas_memory.db.outbox.progress import lag as lag
from pegas_memory.db.outbox.progress import passed as passed
from pegas_memory.db.outbox.progress import passed_all as passed_all
from pegas_memory.db.outbox.progress import pending as pending
from pegas_memory.db.outbox.progress import progress as progress
from pegas_memory.db.outbox.progress import snapshot_now as snapshot_now
from pegas_memory.db.outbox.progress import states as states
from pegas_memory.db.outbox.progress import unread as unread
from pegas_memory.db.outbox.rows import OUTBOX_CHANNEL as OUTBOX_CHANNEL
from pegas_memory.db.outbox.rows import WHOLE_TENANT as WHOLE_TENANT
from pegas_memory.db.outbox.rows import Change as Change
from pegas_memory.db.outbox.rows import current_xid as current_xid
from pegas_memory.db.outbox.rows import enqueue as enqueue
from pegas_memory.db.outbox.rows import enqueue_all as enqueue_all
from pegas_memory.db.outbox.upkeep import ABANDONED_AFTER_DAYS as ABANDONED_AFTER_DAYS
from pegas_memory.db.outbox.upkeep import forget as forget
from pegas_memory.db.outbox.upkeep import give_up_on_abandoned as give_up_on_abandoned
from pegas_memory.db.outbox.upkeep import mend_foreign_xids as mend_foreign_xids
from pegas_memory.db.outbox.upkeep import prune as prune
