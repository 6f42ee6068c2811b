from .allocation import Allocation as Allocation
from .life import WholeLife as WholeLife
from .life import whole_life as whole_life
from .menu import PlanMenu as PlanMenu
from .menu import plan_menu as plan_menu
from .plan import Plan as Plan
from .transfer import Transfer as Transfer
from .tuning import Tuning as Tuning
