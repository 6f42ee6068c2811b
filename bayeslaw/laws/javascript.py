"""Laws in JavaScript, for pages: the function that evaluates a law at draws of its parameters.

    function (P, S, x, out, from, to) { … }

It writes the outcomes of the draws `from` to `to` into `out`. `P` holds the draws, those of each parameter after those of the one
before (parameters, S), and `x` the covariates, both in the order of the law. As in `Law.at_rows`, a name that differs by a column
has the value of the level whose indicator in `x` is largest, and is no number where none is above 0.
"""

from __future__ import annotations

from bayeslaw.laws.formula import javascript_name
from bayeslaw.laws.law import Law

FUNCTIONS = """
const { exp, expm1, log, log1p, sqrt, tanh, min: minimum, max: maximum } = Math;
const sigmoid = (x) => (x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)));
const select = (c, a, b) => (c > 0.5 ? a : b);
// As in C and NumPy, 1 to any power is 1, and so is -1 to an infinite one.
const power = (a, b) => (a === 1 || (a === -1 && (b === Infinity || b === -Infinity)) ? 1 : Math.pow(a, b));
const level = (x, marks) => {
  let best = 0, found = -1;
  marks.forEach((mark, i) => { if (x[mark] > best) { best = x[mark]; found = i; } });
  return found;
};
"""
"""What the functions of `law_function` call."""


def law_function(law: Law) -> str:
    """Return the law as the text of a function in JavaScript.

    Examples
    --------
    >>> from bayeslaw.laws.javascript import law_function
    >>> print(law_function(bayeslaw.load_law("task-exp")).splitlines()[-3].strip())
    out[s] = (_eps - (_k * exp(((-_gamma) * _loss))));
    """
    used = law.formula.names.union(*(e.names for e in law.let.values()))
    used |= {column for name in used & law.series.keys() for column in law.series[name]}
    covariates, parameters = list(law.covariates), list(law.parameters)
    outside = [f"{javascript_name(c)} = x[{i}]" for i, c in enumerate(covariates) if c in used]
    for name, column in law.column_of.items():
        if name in used:
            marks = [covariates.index(mark) for mark in law.marks_of(column)]
            rows = [parameters.index(member) for member in law.members[name]]
            outside.append(f"row{javascript_name(name)} = {rows}[level(x, {marks})]")
    inside = [
        f"{javascript_name(name)} = P[{f'row{javascript_name(name)}' if name in law.column_of else parameters.index(name)} * S + s]"
        for name in law.in_formula
        if name in used
    ]
    fixed = {c for c in covariates if c in used}  # what is the same for all draws
    for name, expression in law.let.items():
        value = f"{javascript_name(name)} = {expression.javascript(law.series)}"
        if expression.names <= fixed | law.series.keys():
            fixed.add(name)
            outside.append(value)
        else:
            inside.append(value)
    lines = [f"  const {line};" for line in outside] + ["  for (let s = from; s < to; s++) {"]
    lines += [f"    const {line};" for line in inside] + [f"    out[s] = {law.formula.javascript(law.series)};", "  }"]
    return "\n".join(["function (P, S, x, out, from, to) {", *lines, "}"])
