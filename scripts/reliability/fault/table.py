"""All faults, by where they arise."""

from scripts.reliability.fault.checkpoints import CHECKPOINTS
from scripts.reliability.fault.command_line import COMMAND_LINE
from scripts.reliability.fault.data import DATA
from scripts.reliability.fault.folders import FOLDERS
from scripts.reliability.fault.identity import IDENTITY
from scripts.reliability.fault.records import RECORDS
from scripts.reliability.fault.reports import REPORTS
from scripts.reliability.fault.security import SECURITY
from scripts.reliability.fault.sweeps import SWEEPS
from scripts.reliability.fault.training import TRAINING

FAULTS = [
    *(*COMMAND_LINE, *FOLDERS, *IDENTITY, *DATA, *TRAINING),
    *(*CHECKPOINTS, *SWEEPS, *REPORTS, *RECORDS, *SECURITY),
]
