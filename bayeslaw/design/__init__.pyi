from .anchors import Anchors as Anchors
from .candidates import Candidates as Candidates
from .candidates import grid_of_runs as grid_of_runs
from .candidates import read_candidates as read_candidates
from .preposterior import Design as Design
from .preposterior import nested as nested
from .update import Update as Update
