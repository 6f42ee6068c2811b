from .anchors import Anchors as Anchors
from .candidates import Candidates as Candidates
from .candidates import grid_of_runs as grid_of_runs
from .candidates import read_candidates as read_candidates
from .preposterior import nested as nested
from .preposterior import validate as validate
from .update import Update as Update
from .update import compare_with_predictions as compare_with_predictions
