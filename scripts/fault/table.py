"""All faults, by where they arise."""

from fault.checkpoints import CHECKPOINTS
from fault.command_line import COMMAND_LINE
from fault.data import DATA
from fault.folders import FOLDERS
from fault.reports import REPORTS
from fault.security import SECURITY
from fault.sweeps import SWEEPS
from fault.training import TRAINING

FAULTS = [*COMMAND_LINE, *FOLDERS, *DATA, *TRAINING, *CHECKPOINTS, *SWEEPS, *REPORTS, *SECURITY]
