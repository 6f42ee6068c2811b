// The explorer's script, first part: outcomes at settings, and the setting in the page's address. `LAWS` stands above: the laws as
// functions (P, S, x, out, from, to) of draws P and covariates x.
const $ = (id) => document.getElementById(id);
const DATA = JSON.parse($("data").textContent);
const FLOPS = 6,
  OUTSIDE = 1e-4,
  STEPS = 1000,
  POINTS = [90, 60, 50][DATA.fits.length - 1],
  CELLS = 36,
  SLICE_MS = 12,
  FAINT = 0.12;

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer),
    out = new Float64Array(bytes.length / 8);
  for (let i = 0; i < out.length; i++) out[i] = view.getFloat64(8 * i, true);
  return out;
}

// --- fits ------------------------------------------------------------------------------------------------------------

function decoded(member) {
  const ready = { ...member, run: LAWS[member.law], draws: floats(member.draws), noise: member.noise.map(floats) };
  ready.factor = ready.noise.map((draws) => draws.map(Math.exp));
  ready.x = new Float64Array(member.covariates.length).fill(1);
  if (member.beyond) ready.beyond = decoded({ ...member.beyond, beyond: null });
  if (member.error) {
    const e = member.error;
    ready.error = { ...e, axes: e.axes.map((a) => ({ ...a, places: floats(a.places), values: floats(a.values) })) };
    for (const key of ["loadings", "shrunk", "coefficients", "whole", "extra", "normal", "sizes"]) ready.error[key] = floats(e[key]);
  }
  return ready;
}

const FITS = DATA.fits.map((fit) => {
  const rows = { ...fit.rows, values: floats(fit.rows.values), outcomes: floats(fit.rows.outcomes) };
  return { ...fit, low: fit.low ?? -Infinity, high: fit.high ?? Infinity, members: fit.members.map(decoded), rows };
});
const SLIDERS = new Map(DATA.sliders.map((slider) => [slider.name, slider]));

// Put a setting into the order of a law's covariates.
function place(member, at, levels) {
  member.covariates.forEach((name, i) => {
    const mark = member.indicators[name];
    member.x[i] = mark ? Number(levels.get(mark[0]) === mark[1]) : (at.get(name) ?? 1);
  });
  return member.x;
}

// How far a setting lies outside the runs, as `outside` of forecasts has it, and whether it does in several covariates together.
function reachOf(member, at) {
  const away = [],
    together = [];
  for (const axis of member.reach.axes) {
    const low = axis.low ?? -Infinity;
    let value = at.get(axis.name);
    if (axis.log) {
      const positive = value > 0;
      value = Math.log(Math.max(value, 1e-300));
      if (axis.context && !(low === -Infinity || positive)) value = low;
    }
    const distance = Math.max(value - axis.high, low - value, 0);
    const rounding = axis.rounding * (axis.log ? 1 : Math.max(Math.abs(axis.high), Math.abs(low)));
    if (distance > rounding) away.push({ name: axis.name, distance, log: axis.log });
  }
  for (const { name, powers, low, high } of member.reach.together) {
    const sum = powers.reduce((total, { name, power, least }) => total + power * Math.log(Math.max(at.get(name), least)), 0);
    if (sum > high + OUTSIDE || sum < (low ?? -Infinity) - OUTSIDE) together.push(name);
  }
  return { away, together, is: away.length + together.length > 0 };
}

// The error of a law in each draw: see the head of reporting/explore.py.
function errorsAt(error, at, out) {
  const own = error.axes.map((axis) => {
    const t = axis.factors.reduce((sum, { name, least }) => sum + Math.log(Math.max(at.get(name), least)), -axis.largest),
      { places, values } = axis,
      knots = places.length - 1;
    let right = 1;
    while (right < places.length - 1 && places[right] < t) right++;
    const share = Math.min(Math.max((t - places[right - 1]) / (places[right] - places[right - 1]), 0), 1),
      f = new Float64Array(knots);
    for (let k = 0; k < knots; k++) f[k] = (1 - share) * values[(right - 1) * knots + k] + share * values[right * knots + k];
    return { f, inside: f.subarray(0, axis.inside), weight: axis.weight, inBox: Math.min(Math.max(t, -axis.width), 0) };
  });
  const squares = (f) => f.reduce((sum, v) => sum + v * v, 0);
  let outside = 0;
  const inside = []; // the features of knots inside the runs
  for (const { f, inside: near, weight } of own) {
    outside += weight ** 2 * (squares(f) - squares(near));
    inside.push(...near);
  }
  for (const [i, j] of error.pairs) {
    const [a, b] = [own[i], own[j]];
    outside +=
      error.interaction * (a.weight * b.weight) ** 2 * (squares(a.f) * squares(b.f) - squares(a.inside) * squares(b.inside));
    for (const u of a.inside) for (const v of b.inside) inside.push(Math.sqrt(error.interaction) * u * v);
  }
  let shift = 0;
  for (const { signs, most, weight, mean } of error.corners) {
    const way = Math.max(signs.reduce((sum, sign, i) => sum + sign * own[i].inBox, 0) - most, 0) ** error.roughness;
    outside += (weight * way) ** 2;
    shift += mean * way;
  }
  const S = out.length,
    c = new Float64Array(error.count);
  for (let k = 0; k < error.count; k++)
    for (let j = 0; j < inside.length; j++) c[k] += error.loadings[k * inside.length + j] * inside[j];
  let whole = Math.max(outside, 0),
    extra = 0;
  if (!error.exact) {
    whole += Math.max(squares(inside) - squares(c), 0);
    c.forEach((value, k) => {
      extra += value * value * error.shrunk[k];
    });
  }
  for (let s = 0; s < S; s++) {
    let mean = shift * error.sizes[s];
    for (let k = 0; k < error.count; k++) mean += c[k] * error.coefficients[k * S + s];
    out[s] = mean + error.normal[s] * Math.sqrt(error.whole[s] ** 2 * whole + error.extra[s] ** 2 * extra);
  }
  return out;
}

function latentOf(member, at, levels, out) {
  member.run(member.draws, member.size, place(member, at, levels), out, 0, member.size);
  return out;
}

// Add noise, and the law's error if there is one, on the outcome's scale, in place.
function noisy(fit, values, by, group, errors) {
  const { low, high } = fit,
    noise = by.noise[group],
    factor = by.factor[group];
  for (let s = 0; s < values.length; s++) {
    if (fit.kind === "positive") values[s] *= errors ? Math.exp(errors[s] + noise[s]) : factor[s];
    else if (fit.kind === "real") values[s] += errors ? errors[s] + noise[s] : noise[s];
    else {
      const z = Math.log(values[s] - low) - Math.log(high - values[s]) + noise[s];
      values[s] = Math.min(Math.max(low + (high - low) * sigmoid(z), low), high);
    }
  }
}

// Outcomes of all draws at a setting: `latent` and, if wanted and there is one, `next`: the spread to report of the next run.
function outcomesAt(fit, at, levels, wantNext = true) {
  const parts = fit.members.map((member) => ({ member, reach: reachOf(member, at) }));
  const away = parts.some(({ reach }) => reach.is),
    latent = new Float64Array(DATA.draws);
  const next = wantNext && fit.kind !== "count" ? new Float64Array(DATA.draws) : null,
    spread = away && fit.members.some((m) => m.beyond) ? "extrapolated" : "run";
  let from = 0;
  for (const { member } of parts) {
    const mine = latent.subarray(from, from + member.size);
    latentOf(member, at, levels, mine);
    if (next) {
      const own = next.subarray(from, from + member.size),
        by = spread === "extrapolated" && member.beyond ? member.beyond : member;
      if (by === member || by.error.exact) own.set(mine);
      else latentOf(by, at, levels, own);
      const group = by.groups.names.length ? Math.max(0, by.groups.names.indexOf(levels.get(by.groups.column))) : 0;
      noisy(fit, own, by, group, by === member ? null : errorsAt(by.error, at, new Float64Array(by.size)));
    }
    from += member.size;
  }
  const distance = new Map();
  for (const { reach } of parts)
    for (const axis of reach.away) {
      if (!(distance.get(axis.name)?.distance >= axis.distance)) distance.set(axis.name, axis);
    }
  const together = [...new Set(parts.flatMap(({ reach }) => reach.together))];
  return { latent, next, spread, away, reach: [...distance.values()], together };
}

// Put the values of some ranks (ascending) in their places: a quicksort that leaves out the parts without one of them.
function partSort(v, ranks, low, high) {
  while (high - low > 12) {
    const a = v[low],
      b = v[(low + high) >> 1],
      c = v[high],
      pivot = a < b ? (b < c ? b : a < c ? c : a) : a < c ? a : b < c ? c : b;
    let i = low,
      j = high;
    while (i <= j) {
      while (v[i] < pivot) i++;
      while (v[j] > pivot) j--;
      if (i <= j) {
        const t = v[i];
        v[i++] = v[j];
        v[j--] = t;
      }
    }
    if (ranks.some((r) => r >= low && r <= j)) partSort(v, ranks, low, j);
    if (!ranks.some((r) => r >= i && r <= high)) return;
    low = i;
  }
  for (let i = low + 1; i <= high; i++) {
    const t = v[i];
    let j = i - 1;
    for (; j >= low && v[j] > t; j--) v[j + 1] = v[j];
    v[j + 1] = t;
  }
}

// Quantiles as NumPy has them, all NaN where a value is; `values` are put in another order.
function quantiles(values, probs) {
  const last = values.length - 1,
    ranks = [];
  for (let s = 0; s <= last; s++) if (values[s] !== values[s]) return probs.map(() => NaN);
  for (const p of probs) ranks.push(Math.floor(p * last), Math.min(Math.floor(p * last) + 1, last));
  partSort(values, ranks, 0, last);
  return probs.map((p, k) => {
    const t = p * last - ranks[2 * k],
      a = values[ranks[2 * k]],
      b = values[ranks[2 * k + 1]];
    return t === 0 || a === b ? a : t < 0.5 ? a + (b - a) * t : b - (b - a) * (1 - t);
  });
}
const PROBS = [0.05, 0.25, 0.5, 0.75, 0.95];

// --- numbers as text -------------------------------------------------------------------------------------------------

const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

function shown(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-4) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    return `${mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa}e${Number(exponent)}`;
  }
  return value.toPrecision(digits).includes("e") ? String(Math.round(value)) : value.toPrecision(digits);
}
const trimmed = (value, digits = 4) => {
  const t = shown(value, digits);
  return t.includes(".") && !t.includes("e") ? t.replace(/\.?0+$/, "") : t;
};

// A number for an axis, with K, M, B and T where the covariate spans decades.
function short(value, log) {
  if (log && value >= 1e3 && value < 1e15) {
    for (const [factor, letter] of [
      [1e12, "T"],
      [1e9, "B"],
      [1e6, "M"],
      [1e3, "K"],
    ])
      if (value >= factor) return trimmed(value / factor, 3) + letter;
  }
  return trimmed(value, 3);
}

function parsed(text) {
  const match = /^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([kmbgt]?)\s*$/i.exec(text);
  if (!match) return NaN;
  const factor = { k: 1e3, m: 1e6, b: 1e9, g: 1e9, t: 1e12 }[match[2].toLowerCase()];
  return factor ? Number((Number(match[1]) * factor).toPrecision(15)) : Number(match[1]);
}

const nameOf = (fit) => fit.outcome + (fit.unit ? ` (${fit.unit})` : "");
const efolds = (axis) => `${axis.name} by ${trimmed(axis.distance, 2)}${axis.log ? " e\u2011folds" : ""}`;
const where = (here) =>
  here.away ? `Beyond the runs: ${here.reach.map(efolds).join(", ") || here.together.join(", ")}` : "Inside the runs";

// --- the setting, and the address that holds it ------------------------------------------------------------------------

const START = new Map(DATA.sliders.map((slider) => [slider.name, slider.start]));
const isRest = ({ name }) => DATA.mixtures.some((shares) => shares.length === 2 && shares[1] === name); // one minus the other share
const AXES = DATA.sliders.filter((s) => !s.series && !s.binary && !s.asked && s.high > s.low && !s.idle && !isRest(s));
const byRange = [...AXES].sort((a, b) => Number(b.log) - Number(a.log));
const preferred = ["N", "D"].map((n) => AXES.find((s) => s.name === n)).filter(Boolean);
const PAIR = [...new Set([...preferred, ...byRange])].slice(0, 2).map((s) => s.name);
const ALLOCATED = FITS.filter((fit) => fit.isLoss && fit.members.every((m) => m.compute));

function begin() {
  const levels = new Map(DATA.columns.map((column) => [column.name, column.values[0]]));
  const here = FITS.map((fit) => quantiles(outcomesAt(fit, START, levels).latent, [0.5])[0]);
  return {
    at: new Map(START),
    levels,
    along: AXES.find((s) => s.name === "D")?.name ?? AXES[0]?.name ?? "",
    x: PAIR[0] ?? "",
    y: PAIR[1] ?? "",
    show: "median",
    on: "latent",
    wanted: 0.9,
    limits: FITS.map((fit, i) => ({
      value: Number.isFinite(here[i])
        ? Number((here[i] + (fit.kind === "count" ? -0.02 : 0.02) * Math.abs(here[i])).toPrecision(3))
        : NaN,
      most: fit.kind !== "count",
    })),
    budget: ALLOCATED.length ? Number((FLOPS * START.get("N") * Math.max(START.get("D"), 1)).toPrecision(3)) : NaN,
  };
}
let state = begin();

const possible = (slider, value) => Number.isFinite(value) && value >= slider.support[0] && value <= slider.support[1];

function write() {
  const words = new URLSearchParams();
  for (const [name, value] of state.at) words.set(name, String(value));
  for (const [column, value] of state.levels) words.set(`level.${column}`, value);
  for (const key of ["along", "x", "y", "show", "on", "wanted", "budget"])
    if (state[key] === state[key]) words.set(`_${key}`, String(state[key]));
  state.limits.forEach((limit, i) => words.set(`_limit${i + 1}`, `${limit.most ? "<" : ">"}${limit.value}`));
  return `#${words}`;
}

function read(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, "")),
    next = begin();
  const number = (key) => (words.has(key) ? Number(words.get(key)) : NaN);
  for (const slider of DATA.sliders) if (possible(slider, number(slider.name))) next.at.set(slider.name, number(slider.name));
  for (const shares of DATA.mixtures)
    if (Math.abs(shares.reduce((sum, name) => sum + next.at.get(name), 0) - 1) > 1e-9)
      shares.forEach((name) => next.at.set(name, START.get(name)));
  for (const column of DATA.columns) {
    const value = words.get(`level.${column.name}`);
    if (column.values.includes(value)) next.levels.set(column.name, value);
  }
  for (const key of ["along", "x", "y"]) if (AXES.some((s) => s.name === words.get(`_${key}`))) next[key] = words.get(`_${key}`);
  for (const [key, values] of [
    ["show", ["median", "width"]],
    ["on", ["latent", "next"]],
  ])
    if (values.includes(words.get(`_${key}`))) next[key] = words.get(`_${key}`);
  if (number("_wanted") > 0 && number("_wanted") < 1) next.wanted = number("_wanted");
  if (number("_budget") > 0) next.budget = number("_budget");
  next.limits.forEach((limit, i) => {
    const match = /^([<>])(.+)$/.exec(words.get(`_limit${i + 1}`) ?? "");
    if (match) {
      limit.most = match[1] === "<";
      limit.value = Number(match[2]);
    }
  });
  return next;
}
