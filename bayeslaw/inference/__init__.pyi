from .batch import Task as Task
from .batch import fit_many as fit_many
from .point import PointFit as PointFit
from .point import point_fit as point_fit
