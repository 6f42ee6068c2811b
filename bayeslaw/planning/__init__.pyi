from .allocation import Allocation as Allocation
from .plan import Plan as Plan
from .transfer import Transfer as Transfer
from .tuning import Tuning as Tuning
