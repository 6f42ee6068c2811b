from .backtest import Backtest as Backtest
from .comparison import Comparison as Comparison
from .loo import Loo as Loo
from .loo import leave_one_run_out as leave_one_run_out
from .scores import score as score
