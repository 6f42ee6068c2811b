from .allocation import Allocation as Allocation
from .mix import Mix as Mix
from .plan import Plan as Plan
from .transfer import Transfer as Transfer
