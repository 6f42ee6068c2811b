"""What to cite: BibTeX entries of law, noise, sampler, PyMC, ArviZ and this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from bayeslaw.core.errors import BayeslawError, kind_of
from bayeslaw.core.files import as_path
from bayeslaw.forecasting.stack import Posterior, Stack, fits_of, load_fit
from bayeslaw.laws.card import law_names, load_law
from bayeslaw.laws.formula import latex_text
from bayeslaw.laws.law import Law
from bayeslaw.laws.references import Reference, bibliography
from bayeslaw.noise.custom import PointNoise
from bayeslaw.noise.noise import Noise
from bayeslaw.posterior.fit import Fit

SAMPLER = ("hoffman2014", "seyboldt2026")
PROGRAMS = {"pymc": "abrilpla2023", "arviz": "martin2026"}
type Citable = Posterior | Law | str | Path


def cite(*what: Citable) -> str:
    """Return BibTeX of what fits were made with: law, noise, sampler, PyMC, ArviZ and bayeslaw, each entry once.

    Entries of programs name the versions that made the fits, or the installed one where only laws are given. A law without
    references in its card, such as one of your own, gets an entry with its title and source.

    Parameters
    ----------
    *what : Fit, Stack, Law, name of a law, or path of a fit, stack or card

    Raises
    ------
    CardError, FitError, BayeslawError
        If a law or a file is unknown or can't be read, or two references have the same key.

    Examples
    --------
    >>> print(bayeslaw.cite("kaplan").splitlines()[1])
    @misc{kaplan2020,
    >>> "version 0." in bayeslaw.cite(bayeslaw.load_fit("fit.nc"))
    True
    """
    if not what:
        raise BayeslawError("Give a fit, a stack or a law to cite.", code="nothing-to-cite")
    if listed := [item for item in what if isinstance(item, (list, tuple, Mapping))]:
        problem = f"Give several fits or laws one after another, such as cite(first, second), not as {kind_of(listed[0])}."
        raise BayeslawError(problem, code="not-a-fit")
    given = [_opened(item) for item in what]
    fits = [fit for item in given if isinstance(item, (Fit, Stack)) for fit in fits_of(item).values()]
    laws = [*(item for item in given if isinstance(item, Law)), *(fit.law for fit in fits)]
    versions = _versions(fits) if fits else {p: version(p) for p in ("bayeslaw", "nutpie", *PROGRAMS)}
    parts = dict[str, Reference]()
    texts = list[str]()
    for title, references in _sections(laws, fits, versions):
        if clash := [r.key for r in references if parts.get(r.key, r) != r]:
            problem = f"Two references have the key {clash[0]!r}: rename one in its card."
            raise BayeslawError(problem, code="given-twice")
        new = [r for r in references if r.key not in parts]
        parts |= {r.key: r for r in new}
        if new:  # BibTeX takes an @ for the beginning of an entry, also in comments
            texts.append("\n\n".join([f"% {title.replace('@', '(at)')}", *(r.bibtex for r in new)]).replace("\n\n", "\n", 1))
    return "\n\n".join(texts) + "\n"


def _versions(fits: list[Fit]) -> dict[str, str]:
    """Return the versions of programs that fits were made with, of several such as '0.1.0 and 0.2.0'."""
    programs = dict.fromkeys(program for fit in fits for program in fit.info["versions"])
    known = {program: [fit.info["versions"].get(program) for fit in fits] for program in programs}
    return {program: " and ".join(dict.fromkeys(filter(None, versions))) for program, versions in known.items()}


def _opened(what: Citable) -> Posterior | Law:
    if isinstance(what, (Fit, Stack, Law)):
        return what
    path = as_path(what, "A fit, a stack or a card")
    return load_fit(path) if path.suffix.lower() == ".nc" else load_law(what)


def _sections(laws: list[Law], fits: list[Fit], versions: Mapping[str, str]) -> Iterator[tuple[str, list[Reference]]]:
    """Yield the references of each part of the work, with what they are of."""
    known = bibliography()
    for law in laws:
        yield f"Law {law.name}: {law.source}", references_of(law)
    for fit in fits:
        yield f"Noise: {fit.noise.text}", [known[key] for key in noise_keys(fit.noise)]
    nutpie = {"author": "{PyMC Developers}", "title": "nutpie", "url": "https://github.com/pymc-devs/nutpie"}
    sampler = [*(known[key] for key in SAMPLER), _versioned(Reference("misc", "nutpie", nutpie), versions, "nutpie")]
    yield "Sampler: the No-U-Turn sampler of nutpie", sampler
    for program, key in PROGRAMS.items():
        yield f"Program: {known[key].fields['title'].partition(':')[0].strip('{}')}", [_versioned(known[key], versions, program)]
    own = {"author": "{The bayeslaw developers}", "title": "bayeslaw: scaling laws as {Bayesian} models"}
    what = [*dict.fromkeys(f"law {law.name}" for law in laws), *dict.fromkeys(fit.noise.text for fit in fits)]
    entry = _versioned(Reference("misc", "bayeslaw", own), versions, "bayeslaw")
    note = f"{entry.fields.get('note', '')}; {_value('; '.join(what))}".removeprefix("; ")
    yield "Program: bayeslaw", [replace(entry, fields={**entry.fields, "note": note})]


def references_of(law: Law) -> list[Reference]:
    """Return the references of a law; cards within older fits have none, but those of the same laws of today have."""
    if law.references:
        return list(law.references)
    if law.name in law_names() and (today := load_law(law.name)).source == law.source:
        return list(today.references)
    key = "law-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in law.name)
    return [Reference("misc", key, {"title": f"{{{_value(law.title)}}}", "note": _value(law.source)})]


def noise_keys(noise: Noise | PointNoise) -> list[str]:
    """Return the keys of references that a noise rests on: of its degrees of freedom, and of a run effect that changes."""
    if isinstance(noise, PointNoise):
        return []
    return [*(["juarez2010"] if noise.student else []), *(["uhlenbeck1930"] if noise.drift else [])]


def _value(text: str) -> str:
    """Return a text as the value of a field. Braces become parentheses, since BibTeX counts also those behind a backslash."""
    return latex_text(text.translate(str.maketrans("{}", "()")))


def _versioned(reference: Reference, versions: Mapping[str, str], program: str) -> Reference:
    note = {"note": f"version {versions[program]}"} if program in versions else {}
    return replace(reference, fields={**reference.fields, **note})
