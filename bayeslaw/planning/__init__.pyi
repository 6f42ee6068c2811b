from .allocation import Allocation as Allocation
from .plan import Plan as Plan
from .plan_menu import PlanMenu as PlanMenu
from .transfer import Transfer as Transfer
from .whole_life import WholeLife as WholeLife
