from .backtest import Backtest as Backtest
from .comparison import Comparison as Comparison
from .loo import Loo as Loo
from .loo import leave_one_run_out as leave_one_run_out
from .predictive import PredictiveCheck as PredictiveCheck
from .predictive import predictive_check as predictive_check
from .scores import score as score
