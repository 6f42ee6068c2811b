// The explorer's script. `LAWS` stands above: the laws as functions (P, S, x, out, from, to) of draws P and covariates x.
const $ = (id) => document.getElementById(id);
const DATA = JSON.parse($("data").textContent);
const FLOPS = 6, OUTSIDE = 1e-9, STEPS = 1000, POINTS = [90, 60, 50][DATA.fits.length - 1], CELLS = 36, SLICE_MS = 12, FAINT = 0.12;

function floats(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer), out = new Float64Array(bytes.length / 8);
  for (let i = 0; i < out.length; i++) out[i] = view.getFloat64(8 * i, true);
  return out;
}

// --- fits ------------------------------------------------------------------------------------------------------------

function decoded(member) {
  const made = { ...member, run: LAWS[member.law], draws: floats(member.draws), noise: member.noise.map(floats) };
  made.factor = made.noise.map((draws) => draws.map(Math.exp));
  made.x = new Float64Array(member.covariates.length).fill(1);
  if (member.beyond) made.beyond = decoded({ ...member.beyond, beyond: null });
  if (member.error) {
    const e = member.error;
    made.error = { ...e, axes: e.axes.map((a) => ({ ...a, places: floats(a.places), values: floats(a.values) })) };
    for (const key of ["loadings", "shrunk", "coefficients", "whole", "extra", "normal"]) made.error[key] = floats(e[key]);
  }
  return made;
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
    member.x[i] = mark ? Number(levels.get(mark[0]) === mark[1]) : at.get(name) ?? 1;
  });
  return member.x;
}

// How far a setting lies outside the runs, as `outside` of forecasts has it, and whether size x tokens does.
function reachOf(member, at) {
  const away = [];
  let is = false;
  for (const axis of member.reach.axes) {
    const low = axis.low ?? -Infinity;
    let value = at.get(axis.name);
    if (axis.log) {
      const positive = value > 0;
      value = Math.log(Math.max(value, 1e-300));
      if (axis.context && !(low === -Infinity || positive)) value = low;
    }
    const distance = Math.max(value - axis.high, low - value, 0);
    if (distance > OUTSIDE) { away.push({ name: axis.name, distance, log: axis.log }); is = true; }
  }
  const { names, least, most } = member.reach.product;
  if (names.length) {
    const sum = names.reduce((total, name, i) => total + Math.log(Math.max(at.get(name), least[i])), 0);
    if (sum > most + OUTSIDE) is = true;
  }
  return { away, is };
}

// The error of a law in each draw: see the head of reporting/explore.py.
function errorsAt(error, at, out) {
  const own = error.axes.map((axis) => {
    const t = Math.log(Math.max(at.get(axis.name), axis.least)) - axis.largest, { places, values } = axis, knots = places.length - 1;
    let right = 1;
    while (right < places.length - 1 && places[right] < t) right++;
    const share = Math.min(Math.max((t - places[right - 1]) / (places[right] - places[right - 1]), 0), 1), f = new Float64Array(knots);
    for (let k = 0; k < knots; k++) f[k] = (1 - share) * values[(right - 1) * knots + k] + share * values[right * knots + k];
    return { f, inside: f.subarray(0, axis.inside), weight: axis.weight };
  });
  const squares = (f) => f.reduce((sum, v) => sum + v * v, 0);
  let outside = 0;
  const inside = [];  // the features of knots inside the runs
  for (const { f, inside: near, weight } of own) {
    outside += weight ** 2 * (squares(f) - squares(near));
    inside.push(...near);
  }
  for (const [i, j] of error.pairs) {
    const [a, b] = [own[i], own[j]];
    outside += error.interaction * (a.weight * b.weight) ** 2 * (squares(a.f) * squares(b.f) - squares(a.inside) * squares(b.inside));
    for (const u of a.inside) for (const v of b.inside) inside.push(Math.sqrt(error.interaction) * u * v);
  }
  const S = out.length, c = new Float64Array(error.count);
  for (let k = 0; k < error.count; k++) for (let j = 0; j < inside.length; j++) c[k] += error.loadings[k * inside.length + j] * inside[j];
  let whole = Math.max(outside, 0), extra = 0;
  if (!error.exact) {
    whole += Math.max(squares(inside) - squares(c), 0);
    c.forEach((value, k) => { extra += value * value * error.shrunk[k]; });
  }
  for (let s = 0; s < S; s++) {
    let mean = 0;
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
  const { low, high } = fit, noise = by.noise[group], factor = by.factor[group];
  for (let s = 0; s < values.length; s++) {
    if (fit.kind === "positive") values[s] *= errors ? Math.exp(errors[s] + noise[s]) : factor[s];
    else if (fit.kind === "real") values[s] += noise[s];
    else {
      const z = Math.log(values[s] - low) - Math.log(high - values[s]) + noise[s];
      values[s] = Math.min(Math.max(low + (high - low) * sigmoid(z), low), high);
    }
  }
}

// Outcomes of all draws at a setting: `latent` and, if wanted and there is one, `next`: the spread to report of the next run.
function outcomesAt(fit, at, levels, wantNext = true) {
  const parts = fit.members.map((member) => ({ member, reach: reachOf(member, at) }));
  const away = parts.some(({ reach }) => reach.is), latent = new Float64Array(DATA.draws);
  const next = wantNext && fit.kind !== "count" ? new Float64Array(DATA.draws) : null, spread = away && fit.members.some((m) => m.beyond) ? "extrapolated" : "run";
  let from = 0;
  for (const { member } of parts) {
    const mine = latent.subarray(from, from + member.size);
    latentOf(member, at, levels, mine);
    if (next) {
      const own = next.subarray(from, from + member.size), by = spread === "extrapolated" && member.beyond ? member.beyond : member;
      if (by === member || by.error.exact) own.set(mine);
      else latentOf(by, at, levels, own);
      const group = by.groups.names.length ? Math.max(0, by.groups.names.indexOf(levels.get(by.groups.column))) : 0;
      noisy(fit, own, by, group, by === member ? null : errorsAt(by.error, at, new Float64Array(by.size)));
    }
    from += member.size;
  }
  const distance = new Map();
  for (const { reach } of parts) for (const one of reach.away) {
    if (!(distance.get(one.name)?.distance >= one.distance)) distance.set(one.name, one);
  }
  return { latent, next, spread, away, reach: [...distance.values()] };
}

// Put the values of some ranks (ascending) in their places: a quicksort that leaves out the parts without one of them.
function partSort(v, ranks, low, high) {
  while (high - low > 12) {
    const a = v[low], b = v[(low + high) >> 1], c = v[high], pivot = a < b ? (b < c ? b : a < c ? c : a) : a < c ? a : b < c ? c : b;
    let i = low, j = high;
    while (i <= j) {
      while (v[i] < pivot) i++;
      while (v[j] > pivot) j--;
      if (i <= j) { const t = v[i]; v[i++] = v[j]; v[j--] = t; }
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
  const last = values.length - 1, ranks = [];
  for (let s = 0; s <= last; s++) if (values[s] !== values[s]) return probs.map(() => NaN);
  for (const p of probs) ranks.push(Math.floor(p * last), Math.min(Math.floor(p * last) + 1, last));
  partSort(values, ranks, 0, last);
  return probs.map((p, k) => {
    const t = p * last - ranks[2 * k], a = values[ranks[2 * k]], b = values[ranks[2 * k + 1]];
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
const trimmed = (value, digits = 4) => { const t = shown(value, digits); return t.includes(".") && !t.includes("e") ? t.replace(/\.?0+$/, "") : t; };

// A number for an axis, with K, M, B and T where the covariate spans decades.
function short(value, log) {
  if (log && value >= 1e3 && value < 1e15) {
    for (const [factor, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]]) if (value >= factor) return trimmed(value / factor, 3) + letter;
  }
  return trimmed(value, 3);
}

function parsed(text) {
  const found = /^\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*([kmbgt]?)\s*$/i.exec(text);
  if (!found) return NaN;
  const factor = { k: 1e3, m: 1e6, b: 1e9, g: 1e9, t: 1e12 }[found[2].toLowerCase()];
  return factor ? Number((Number(found[1]) * factor).toPrecision(15)) : Number(found[1]);
}

const nameOf = (fit) => fit.outcome + (fit.unit ? ` (${fit.unit})` : "");
const efolds = (one) => `${one.name} by ${trimmed(one.distance, 2)}${one.log ? " e\u2011folds" : ""}`;
const where = (here) => here.away ? `Beyond the runs: ${here.reach.map(efolds).join(", ") || "their compute"}` : "Inside the runs";

// --- the setting, and the address that holds it ------------------------------------------------------------------------

const START = new Map(DATA.sliders.map((slider) => [slider.name, slider.start]));
const AXES = DATA.sliders.filter((s) => !s.series && !s.binary && s.high > s.low && !s.idle);
const byRange = [...AXES].sort((a, b) => Number(b.log) - Number(a.log));
const preferred = ["N", "D"].map((n) => AXES.find((s) => s.name === n)).filter(Boolean);
const PAIR = [...new Set([...preferred, ...byRange])].slice(0, 2).map((s) => s.name);
const ALLOCATED = FITS.filter((fit) => fit.isLoss && fit.members.every((m) => m.compute));

function begin() {
  const levels = new Map(DATA.columns.map((column) => [column.name, column.values[0]]));
  const here = FITS.map((fit) => quantiles(outcomesAt(fit, START, levels).latent, [0.5])[0]);
  return {
    at: new Map(START), levels, along: AXES.find((s) => s.name === "D")?.name ?? AXES[0]?.name ?? "", x: PAIR[0] ?? "", y: PAIR[1] ?? "",
    show: "median", on: "latent", wanted: 0.9,
    limits: FITS.map((fit, i) => ({ value: Number.isFinite(here[i]) ? Number((here[i] + (fit.kind === "count" ? -0.02 : 0.02) * Math.abs(here[i])).toPrecision(3)) : NaN, most: fit.kind !== "count" })),
    budget: ALLOCATED.length ? Number((FLOPS * START.get("N") * Math.max(START.get("D"), 1)).toPrecision(3)) : NaN,
  };
}
let state = begin();

const possible = (slider, value) => Number.isFinite(value) && value >= slider.support[0] && value <= slider.support[1];

function write() {
  const words = new URLSearchParams();
  for (const [name, value] of state.at) words.set(name, String(value));
  for (const [column, value] of state.levels) words.set(`level.${column}`, value);
  for (const key of ["along", "x", "y", "show", "on", "wanted", "budget"]) if (state[key] === state[key]) words.set(`_${key}`, String(state[key]));
  state.limits.forEach((limit, i) => words.set(`_limit${i + 1}`, `${limit.most ? "<" : ">"}${limit.value}`));
  return `#${words}`;
}

function read(hash) {
  const words = new URLSearchParams(hash.replace(/^#/, "")), next = begin();
  const number = (key) => (words.has(key) ? Number(words.get(key)) : NaN);
  for (const slider of DATA.sliders) if (possible(slider, number(slider.name))) next.at.set(slider.name, number(slider.name));
  for (const shares of DATA.mixtures) if (Math.abs(shares.reduce((sum, name) => sum + next.at.get(name), 0) - 1) > 1e-9) shares.forEach((name) => next.at.set(name, START.get(name)));
  for (const column of DATA.columns) { const value = words.get(`level.${column.name}`); if (column.values.includes(value)) next.levels.set(column.name, value); }
  for (const key of ["along", "x", "y"]) if (AXES.some((s) => s.name === words.get(`_${key}`))) next[key] = words.get(`_${key}`);
  for (const [key, values] of [["show", ["median", "width"]], ["on", ["latent", "next"]]]) if (values.includes(words.get(`_${key}`))) next[key] = words.get(`_${key}`);
  if (number("_wanted") > 0 && number("_wanted") < 1) next.wanted = number("_wanted");
  if (number("_budget") > 0) next.budget = number("_budget");
  next.limits.forEach((limit, i) => {
    const found = /^([<>])(.+)$/.exec(words.get(`_limit${i + 1}`) ?? "");
    if (found) { limit.most = found[1] === "<"; limit.value = Number(found[2]); }
  });
  return next;
}

// --- pictures --------------------------------------------------------------------------------------------------------

const EDGE = { left: 62, right: 14, top: 10, bottom: 42 };

function scale(low, high, log, from, to) {
  const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high], per = (to - from) / (b - a || 1);
  const pixel = (v) => from + ((log ? Math.log(v) : v) - a) * per;
  return { low, high, log, from, to, pixel, value: (px) => (log ? Math.exp(a + (px - from) / per) : a + (px - from) / per), at: (i, n) => (log ? Math.exp(a + ((b - a) * i) / n) : a + ((b - a) * i) / n) };
}

function ticks({ low, high, log, from, to }) {
  const most = Math.max(2, Math.floor(Math.abs(to - from) / (to > from ? 62 : 32))), made = [];
  if (log && high / low > 8) {
    const decades = Math.log10(high / low), parts = decades < most / 2.5 ? [1, 2, 5] : decades < most / 1.6 ? [1, 3] : [1], every = Math.ceil(decades / most);
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) if (e % every === 0) for (const p of parts) { const v = Number(`${p}e${e}`); if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) made.push(v); }
    return made;
  }
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) ?? rough;
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) made.push(Number((i * step).toPrecision(12)));
  return made;
}

function axes(x, y, xLabel, yLabel, height, lines = true) {
  const right = x.to, bottom = y.from, parts = [];
  for (const v of ticks(x)) parts.push(`<path class="grid" d="M${x.pixel(v).toFixed(1)} ${lines ? y.to : bottom + 5}V${bottom}"/><text class="soft" text-anchor="middle" x="${x.pixel(v).toFixed(1)}" y="${bottom + 16}">${short(v, x.log)}</text>`);
  for (const v of ticks(y)) parts.push(`<path class="grid" d="M${lines ? right : x.from - 5} ${y.pixel(v).toFixed(1)}H${x.from}"/><text class="soft" text-anchor="end" x="${x.from - 6}" y="${(y.pixel(v) + 4).toFixed(1)}">${short(v, y.log)}</text>`);
  parts.push(`<text text-anchor="middle" x="${(x.from + right) / 2}" y="${height - 6}">${escaped(xLabel)}</text>`);
  parts.push(`<text text-anchor="middle" transform="translate(13 ${(y.to + bottom) / 2}) rotate(-90)">${escaped(yLabel)}</text>`);
  return parts.join("");
}

const labelOf = (name) => { const s = SLIDERS.get(name); return s && s.unit ? `${name} (${s.unit})` : name; };
const line = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
const between = (low, high) => (low.length ? `${line(low)}${line([...high].reverse()).replace("M", "L")}Z` : "");

function figure(box, i, caption) {
  while (box.children.length <= i) {
    const made = document.createElement("figure");
    made.innerHTML = '<figcaption></figcaption><svg role="img"></svg>';
    box.append(made);
  }
  const [head, svg] = box.children[i].children;
  if (head.dataset.text !== caption) { head.dataset.text = caption; head.textContent = caption; }
  return svg;
}

function paint(svg, width, height, content, label) {
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("aria-label", label);
  svg.innerHTML = content;
}

// Widths are measured once and when the window changes, because asking for them makes the browser lay the page out.
const widths = new Map();
function widthOf(box, count) {
  if (!widths.has(box.id)) {
    const columns = Math.max(1, Math.min(count, Math.floor((box.clientWidth + 16) / (280 + 16))));
    widths.set(box.id, Math.max(260, Math.floor((box.clientWidth - 16 * (columns - 1)) / columns)));
  }
  return widths.get(box.id);
}

// Points of a covariate's axis: the slider's range and, where it lies beyond, the setting.
function axisOf(name, from, to) {
  const s = SLIDERS.get(name), value = state.at.get(name);
  const inside = s.log && !(value > 0) ? s.low : value;
  return scale(Math.min(s.low, inside), Math.max(s.high, inside), s.log, from, to);
}

// How near a fitted row is to the setting in all covariates but some: 1 is equal, and `FAINT` the least.
function nearness(fit, row, but) {
  const { names, values, levels, run } = fit.rows, count = run.length;
  let square = 0;
  names.forEach((name, i) => {
    const s = SLIDERS.get(name);
    if (!s || but.includes(name) || s.series || s.idle) return;
    const [a, b] = [values[i * count + row], state.at.get(name)];
    square += (s.log ? Math.log(Math.max(a, s.low) / Math.max(b, s.low)) : (3 * (a - b)) / (s.seenHigh - s.seenLow || 1)) ** 2;
  });
  for (const [column, of] of Object.entries(levels)) if (of[row] !== state.levels.get(column)) square += 9;
  return Math.max(FAINT, Math.exp(-2 * square));
}

const rowValue = (fit, name, row) => { const i = fit.rows.names.indexOf(name); return i < 0 ? NaN : fit.rows.values[i * fit.rows.run.length + row]; };

// Bands along a covariate. They stay while only this covariate moves, within the axis.
const kept = [];
function pointsAlong(fit, i, x) {
  const others = [...state.at].filter(([name]) => name !== state.along);  // other shares of a mixture move with it, and so it is drawn anew
  const key = JSON.stringify([state.along, x.low, x.high, x.from, x.to, others, [...state.levels]]);
  if (kept[i]?.key === key) return kept[i].points;
  const at = new Map(state.at), points = [];
  for (let k = 0; k <= POINTS; k++) {
    const value = x.at(k, POINTS);
    moveOne(at, state.along, value);
    const here = outcomesAt(fit, at, state.levels), next = here.next && quantiles(here.next, [0.05, 0.95]);
    points.push({ value, px: x.pixel(value), latent: quantiles(here.latent, PROBS), next, away: here.away, spread: here.spread });
  }
  kept[i] = { key, points };
  return points;
}

function curve(fit, i) {
  const box = $("curves"), width = widthOf(box, FITS.length), height = Math.round(Math.min(330, Math.max(250, width * 0.62)));
  const x = axisOf(state.along, EDGE.left, width - EDGE.right), s = SLIDERS.get(state.along), points = pointsAlong(fit, i, x);
  const seen = [], good = points.filter((p) => p.latent.every(Number.isFinite));
  const values = good.flatMap((p) => [p.latent[0], p.latent[4], ...(p.next ?? [])]).filter(Number.isFinite).sort((a, b) => a - b);
  for (let row = 0; row < fit.rows.run.length; row++) {
    const value = rowValue(fit, state.along, row), outcome = fit.rows.outcomes[row], near = nearness(fit, row, [state.along]);
    if (Number.isFinite(value) && (!x.log || value > 0)) seen.push({ px: x.pixel(value), outcome, near });
  }
  const near = seen.filter((p) => p.near > 0.3).map((p) => p.outcome);
  let low = Math.min(...near, values[0] ?? 0), high = Math.max(...near, values[Math.floor(0.995 * (values.length - 1))] ?? 1);
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  const margin = 0.04 * (high - low), y = scale(Math.max(low - margin, fit.low === 0 && low >= 0 ? 0 : -Infinity), high + margin, false, height - EDGE.bottom, EDGE.top);
  const band = (a, b) => between(good.map((p) => [p.px, y.pixel(p.latent[a])]), good.map((p) => [p.px, y.pixel(p.latent[b])]));
  const parts = [axes(x, y, labelOf(state.along), nameOf(fit), height)];
  for (let k = 0; k < points.length; k++) if (points[k].away) {
    let end = k;
    while (end + 1 < points.length && points[end + 1].away) end++;
    parts.push(`<path class="away" d="M${points[k].px.toFixed(1)} ${y.to}H${points[end].px.toFixed(1)}V${y.from}H${points[k].px.toFixed(1)}Z"/>`);
    k = end;
  }
  const clip = `clip${i}`, dots = seen.map((p) => (p.outcome >= y.low && p.outcome <= y.high ? `<circle class="run" fill-opacity="${(0.85 * p.near).toFixed(2)}" cx="${p.px.toFixed(1)}" cy="${y.pixel(p.outcome).toFixed(1)}" r="2.6"/>` : ""));
  parts.push(`<clipPath id="${clip}"><rect x="${x.from}" y="${y.to}" width="${x.to - x.from}" height="${y.from - y.to}"/></clipPath><g clip-path="url(#${clip})">`);
  parts.push(`<path class="band90" d="${band(0, 4)}"/><path class="band50" d="${band(1, 3)}"/>${dots.join("")}`);
  const noted = good.filter((p) => p.next?.every(Number.isFinite));
  if (noted.length) parts.push(...[0, 1].map((end) => `<path class="next" d="${line(noted.map((p) => [p.px, y.pixel(p.next[end])]))}"/>`));
  parts.push(`<path class="median" d="${line(good.map((p) => [p.px, y.pixel(p.latent[2])]))}"/></g>`);
  const now = state.at.get(state.along), px = x.pixel(x.log ? Math.max(now, x.low) : now);
  parts.push(`<path class="here" d="M${px.toFixed(1)} ${y.to}V${y.from}"/>`);
  const first = good[0], last = good[good.length - 1];
  const text = first ? `${fit.label}: median ${shown(first.latent[2])} at ${state.along} ${short(first.value, x.log)} to ${shown(last.latent[2])} at ${short(last.value, x.log)}; runs from ${short(s.seenLow, x.log)} to ${short(s.seenHigh, x.log)}. Numbers are in the table below.` : `${fit.label}: no finite ${fit.outcome} here`;
  paint(figure(box, i, `${fit.label}: ${nameOf(fit)} along ${state.along}`), width, height, parts.join(""), text);
  return points;
}

// A grid of settings over the two axes of the slice, computed a few cells at a time so that the page stays responsive.
function* grid(x, y) {
  const made = FITS.map(() => ({ median: new Float64Array(CELLS * CELLS), width: new Float64Array(CELLS * CELLS) })), chance = new Float64Array(CELLS * CELLS), at = new Map(state.at);
  for (let cell = 0; cell < CELLS * CELLS; cell++) {
    moveOne(at, x.name, x.at((cell % CELLS) + 0.5, CELLS));
    moveOne(at, y.name, y.at(Math.floor(cell / CELLS) + 0.5, CELLS));
    const each = FITS.map((fit) => outcomesAt(fit, at, state.levels, state.on === "next"));
    chance[cell] = holds(each);
    each.forEach((here, i) => { const q = quantiles(here.latent, [0.05, 0.5, 0.95]); made[i].median[cell] = q[1]; made[i].width[cell] = q[2] - q[0]; });
    yield null;
  }
  return { fits: made, chance };
}

// The share of draws in which all limits hold.
function holds(each) {
  let count = 0;
  const limits = state.limits.map((limit, i) => ({ ...limit, values: (state.on === "next" && each[i].next) || each[i].latent })).filter((l) => Number.isFinite(l.value));
  for (let s = 0; s < DATA.draws; s++) if (limits.every((l) => (l.most ? l.values[s] <= l.value : l.values[s] >= l.value))) count++;
  return limits.length ? count / DATA.draws : NaN;
}

// Marching squares: the line where values on the cells' centres cross a level, as separate pieces.
function contour(values, level, x, y) {
  const parts = [], px = (i) => x.from + ((i + 0.5) / CELLS) * (x.to - x.from), py = (j) => y.from + ((j + 0.5) / CELLS) * (y.to - y.from);
  for (let j = 0; j + 1 < CELLS; j++) for (let i = 0; i + 1 < CELLS; i++) {
    const corner = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], v = corner.map(([a, b]) => values[b * CELLS + a] - level), crossed = [];
    if (!v.every(Number.isFinite)) continue;
    for (let k = 0; k < 4; k++) {
      const n = (k + 1) % 4;
      if (v[k] >= 0 !== v[n] >= 0) { const t = v[k] / (v[k] - v[n]); crossed.push([px(corner[k][0] + t * (corner[n][0] - corner[k][0])), py(corner[k][1] + t * (corner[n][1] - corner[k][1]))]); }
    }
    for (let k = 0; k + 1 < crossed.length; k += 2) parts.push([crossed[k], crossed[k + 1]]);
  }
  return parts;
}
const pieces = (parts) => parts.map(line).join("");

// Cells end on whole pixels, so that none overlap.
function heat(values, x, y, opacity, kind = "") {
  const edge = (axis, i) => Math.round(axis.from + (i * (axis.to - axis.from)) / CELLS), parts = [];
  for (let j = 0; j < CELLS; j++) for (let i = 0; i < CELLS; i++) {
    const o = opacity(values[j * CELLS + i]), [left, right, bottom, top] = [edge(x, i), edge(x, i + 1), edge(y, j), edge(y, j + 1)];
    if (o > 0.004) parts.push(`<path class="heat ${kind}" fill-opacity="${o.toFixed(2)}" d="M${left} ${bottom}H${right}V${top}H${left}Z"/>`);
  }
  return parts.join("");
}

function marks(fit, x, y) {
  const parts = [], inside = (a, v) => Math.min(Math.max(a.log ? Math.max(v, a.low) : v, a.low), a.high);
  if (fit) for (let row = 0; row < fit.rows.run.length; row++) {
    const a = rowValue(fit, x.name, row), b = rowValue(fit, y.name, row);
    if (a >= x.low && a <= x.high && b >= y.low && b <= y.high) parts.push(`<circle class="run" fill-opacity="${(0.8 * nearness(fit, row, [x.name, y.name])).toFixed(2)}" cx="${x.pixel(a).toFixed(1)}" cy="${y.pixel(b).toFixed(1)}" r="2.3"/>`);
  }
  const [sx, sy] = [SLIDERS.get(x.name), SLIDERS.get(y.name)], box = [x.pixel(inside(x, sx.seenLow)), x.pixel(inside(x, sx.seenHigh)), y.pixel(inside(y, sy.seenLow)), y.pixel(inside(y, sy.seenHigh))];
  parts.push(`<path class="frame" d="M${box[0]} ${box[2]}H${box[1]}V${box[3]}H${box[0]}Z"/>`);
  const [px, py] = [x.pixel(inside(x, state.at.get(x.name))), y.pixel(inside(y, state.at.get(y.name)))];
  parts.push(`<path class="here" d="M${px - 8} ${py}H${px + 8}M${px} ${py - 8}V${py + 8}"/>`);
  return parts.join("");
}

function slices(result, x, y, width, height) {
  FITS.forEach((fit, i) => {
    const values = result.fits[i][state.show], finite = [...values].filter(Number.isFinite).sort((a, b) => a - b), low = finite[0], high = finite[Math.floor(0.97 * (finite.length - 1))];
    const parts = [heat(values, x, y, (v) => (Number.isFinite(v) ? 0.75 * Math.min(Math.max((high - v) / (high - low || 1), 0), 1) : 0)), axes(x, y, labelOf(x.name), labelOf(y.name), height, false)];
    for (const level of ticks({ low, high, log: false, from: 0, to: 400 })) {
      const found = contour(values, level, x, y);
      parts.push(`<path class="level" d="${pieces(found)}"/>`);
      if (found.length) { const [a] = found[Math.floor(found.length / 2)]; parts.push(`<text class="halo" text-anchor="middle" x="${a[0].toFixed(1)}" y="${(a[1] + 4).toFixed(1)}">${trimmed(level, 3)}</text>`); }
    }
    parts.push(marks(fit, x, y));
    const what = state.show === "median" ? `latent median of ${nameOf(fit)}` : `width of the latent 90% interval of ${nameOf(fit)}`;
    paint(figure($("maps"), i, `${fit.label}: ${what}`), width, height, parts.join(""), `${fit.label}: ${what} over ${x.name} and ${y.name}, from ${shown(finite[0])} to ${shown(finite[finite.length - 1])}; stronger colour is lower`);
  });
}

function region(result, x, y, width, height) {
  const any = state.limits.some((l) => Number.isFinite(l.value)), values = result.chance, best = Math.max(...values);
  const parts = [any ? heat(values, x, y, (v) => 0.7 * v, "chance") : "", axes(x, y, labelOf(x.name), labelOf(y.name), height, false)];
  if (any) {
    for (const level of [0.1, 0.5, 0.9]) if (level !== state.wanted) parts.push(`<path class="level" d="${pieces(contour(values, level, x, y))}"/>`);
    parts.push(`<path class="wanted" d="${pieces(contour(values, state.wanted, x, y))}"/>`);
  }
  parts.push(marks(FITS.length === 1 ? FITS[0] : null, x, y));
  const least = values.findIndex((v) => v >= state.wanted), text = !any ? "No limit is given." : least < 0
    ? `Nowhere on this slice do the limits hold with probability ${state.wanted}: the largest is ${shown(best, 3)}.`
    : `On this slice they hold with probability ${state.wanted} or more from ${y.name} = ${short(y.at(Math.floor(least / CELLS) + 0.5, CELLS), y.log)} on, at ${x.name} = ${short(x.at((least % CELLS) + 0.5, CELLS), x.log)}.`;
  paint(figure($("region"), 0, "Probability that all limits hold"), width, height, parts.join(""), text);
  return text;
}

// --- allocation --------------------------------------------------------------------------------------------------------

const GOLDEN = (Math.sqrt(5) - 1) / 2, GRID = 80, SECTIONS = 45;

// N of least expected outcome at N D = k for each draw of a law: a grid of log N, then golden sections.
function bestOf(member, at, levels, k) {
  const [[lowN, highN], [lowD, highD]] = [member.supports.N, member.supports.D];
  const low = Math.max(Math.log(lowN), Math.log(k) - Math.log(highD)), high = Math.min(Math.log(highN), Math.log(k) - Math.log(Math.max(lowD, 1)));
  if (!(low < high)) return null;
  const S = member.size, x = place(member, at, levels), [n, d] = [member.covariates.indexOf("N"), member.covariates.indexOf("D")], one = new Float64Array(S);
  const each = (logN, from, to) => { x[n] = Math.exp(logN); x[d] = k / x[n]; member.run(member.draws, S, x, one, from, to); };
  const least = new Float64Array(S).fill(Infinity), best = new Int32Array(S), point = (i) => low + ((high - low) * i) / (GRID - 1);
  for (let i = 0; i < GRID; i++) {
    each(point(i), 0, S);
    for (let s = 0; s < S; s++) if (one[s] < least[s]) { least[s] = one[s]; best[s] = i; }
  }
  const N = new Float64Array(S), outcome = new Float64Array(S);
  let corner = 0;
  for (let s = 0; s < S; s++) {
    const value = (logN) => { each(logN, s, s + 1); return Number.isFinite(one[s]) ? one[s] : Infinity; };
    let a = point(Math.max(best[s] - 1, 0)), b = point(Math.min(best[s] + 1, GRID - 1)), c = b - GOLDEN * (b - a), e = a + GOLDEN * (b - a), atC = value(c), atE = value(e);
    for (let i = 0; i < SECTIONS; i++) {
      if (atC < atE) { b = e; e = c; atE = atC; c = b - GOLDEN * (b - a); atC = value(c); }
      else { a = c; c = e; atC = atE; e = a + GOLDEN * (b - a); atE = value(e); }
    }
    const middle = (a + b) / 2;
    N[s] = Math.exp(middle);
    outcome[s] = value(middle);
    if (Math.min(middle - low, high - middle) < 1e-6) corner++;
  }
  return { N, outcome, corner };
}

function allocate(fit, at, levels, budget) {
  const k = budget / FLOPS, parts = fit.members.map((member) => bestOf(member, at, levels, k));
  if (parts.some((p) => !p)) return null;
  const joined = (key) => Float64Array.from(parts.flatMap((p) => [...p[key]]));
  const N = joined("N");
  return { N, D: N.map((n) => k / n), outcome: joined("outcome"), corner: parts.reduce((sum, p) => sum + p.corner, 0) / DATA.draws };
}

function isoflop(fit, i, found) {
  const box = $("isoflop"), width = widthOf(box, ALLOCATED.length), height = 270, k = state.budget / FLOPS, q = quantiles(found.N.slice(), PROBS), at = new Map(state.at);
  const bounds = fit.members[0].supports, low = Math.max(q[0] / 12, bounds.N[0], k / bounds.D[1]), high = Math.min(q[4] * 12, bounds.N[1], k / Math.max(bounds.D[0], 1));
  const x = scale(low, high, true, EDGE.left, width - EDGE.right), points = [];
  for (let j = 0; j <= 50; j++) {
    const n = x.at(j, 50);
    at.set("N", n);
    at.set("D", k / n);
    points.push({ px: x.pixel(n), q: quantiles(outcomesAt(fit, at, state.levels, false).latent, PROBS) });
  }
  const good = points.filter((p) => p.q.every(Number.isFinite)), values = good.flatMap((p) => [p.q[0], p.q[4]]), least = Math.min(...values), margin = 0.05 * (Math.max(...values) - least || 1);
  const y = scale(least - margin, Math.max(...values) + margin, false, height - EDGE.bottom, EDGE.top), shade = (a, b) => `M${x.pixel(Math.max(q[a], low)).toFixed(1)} ${y.to}H${x.pixel(Math.min(q[b], high)).toFixed(1)}V${y.from}H${x.pixel(Math.max(q[a], low)).toFixed(1)}Z`;
  const band = (a, b) => between(good.map((p) => [p.px, y.pixel(p.q[a])]), good.map((p) => [p.px, y.pixel(p.q[b])]));
  const content = `<path class="away" d="${shade(0, 4)}"/><path class="away" d="${shade(1, 3)}"/>${axes(x, y, "N (parameters), D = C / 6N", nameOf(fit), height)}<path class="band90" d="${band(0, 4)}"/><path class="band50" d="${band(1, 3)}"/><path class="median" d="${line(good.map((p) => [p.px, y.pixel(p.q[2])]))}"/><path class="here" d="M${x.pixel(q[2]).toFixed(1)} ${y.to}V${y.from}"/>`;
  paint(figure(box, i, `${fit.label}: ${nameOf(fit)} at C = ${shown(state.budget, 3)} FLOPs`), width, height, content, `${fit.label}: outcome along N at this budget; best N has the median ${short(q[2], true)}, 90% interval ${short(q[0], true)} to ${short(q[4], true)}`);
}

function allocation() {
  $("best").innerHTML = ALLOCATED.map((fit) => {
    const found = allocate(fit, state.at, state.levels, state.budget), head = FITS.length > 1 ? `<h3>${escaped(fit.label)}</h3>` : "";
    if (!found) return `<div class="card">${head}<p>This budget leaves no N and D in the law's supports.</p></div>`;
    isoflop(fit, ALLOCATED.indexOf(fit), found);
    const row = (name, values, log) => { const q = quantiles(Float64Array.from(values), PROBS); return `<tr><th scope="row">${name}</th>${[2, 1, 3, 0, 4].reduce((text, j, n) => (n === 0 ? `<td class="n">${short4(q[2], log)}</td>` : n % 2 ? `${text}<td class="n">${short4(q[j], log)} to ` : `${text}${short4(q[j], log)}</td>`), "")}</tr>`; };
    const ratio = found.D.map((d, s) => d / found.N[s]);
    const corner = found.corner ? `<p class="where far">In ${shown(100 * found.corner, 2)}% of the draws the optimum is a limit of N or D.</p>` : "";
    return `<div class="card">${head}<div class="scroll" tabindex="0" role="region" aria-label="Best N and D by ${escaped(fit.label)}"><table><thead><tr><th scope="col">best</th><th scope="col">median</th><th scope="col">50% eti</th><th scope="col">90% eti</th></tr></thead><tbody>${row("N", found.N, true)}${row("D", found.D, true)}${row("D / N", ratio, false)}${row(escaped(fit.outcome), found.outcome, false)}</tbody></table></div>${corner}</div>`;
  }).join("");
}
const short4 = (v, log) => (log ? short(v, true) : shown(v, 4));

// --- what is on the page ---------------------------------------------------------------------------------------------------

let later = null, frame = 0, timer = 0, drawn = [];

function cards() {
  const each = FITS.map((fit) => outcomesAt(fit, state.at, state.levels)), bars = [], spoken = [];
  const chance = holds(each);
  $("cards").innerHTML = FITS.map((fit, i) => {
    const here = each[i], q = quantiles(here.latent, PROBS), next = here.next && quantiles(here.next, PROBS), range = (v, a, b) => `${shown(v[a])} to ${shown(v[b])}`;
    const rows = [["latent 50% eti", range(q, 1, 3)], ["latent 90% eti", range(q, 0, 4)]];
    if (next) rows.push([`${here.spread} median`, shown(next[2])], [`${here.spread} 90% eti`, range(next, 0, 4)]);
    else rows.push(["next run", "not in this page: its items are counted"]);
    const name = FITS.length > 1 ? `<h3>${escaped(fit.label)}</h3>` : "", impossible = Number.isFinite(q[2]) ? "" : `<p class="where far">The law has no finite ${escaped(fit.outcome)} here.</p>`;
    bars.push(`<div><span>${escaped(fit.label)}</span><span><b>${shown(q[2])}</b> ${next ? `${here.spread} 90% eti: ${range(next, 0, 4)}` : `latent 90% eti: ${range(q, 0, 4)}`}</span></div>`);
    spoken.push(`${fit.label}: ${fit.outcome} ${shown(q[2])}, 90% equal-tailed interval ${range(next ?? q, 0, 4)} (${next ? here.spread : "latent"}). ${where(here)}.`);
    return `<div class="card">${name}<div class="big">${shown(q[2])} <small>${escaped(nameOf(fit))}, latent median</small></div><dl>${rows.map(([a, b]) => `<dt>${a}</dt><dd>${b}</dd>`).join("")}</dl>${impossible}<p class="where${here.away ? " far" : ""}">${here.away ? "▲ " : ""}${escaped(where(here))}</p></div>`;
  }).join("");
  $("bar").innerHTML = bars.join("");
  const limits = state.limits.map((l, i) => (Number.isFinite(l.value) ? `${FITS[i].label} ${l.most ? "at most" : "at least"} ${trimmed(l.value)}` : "")).filter(Boolean);
  $("feasible").textContent = limits.length ? `At this setting, ${limits.join(" and ")} ${limits.length > 1 ? "hold together" : "holds"} with probability ${chance.toFixed(2)} (${state.on === "next" ? "next run" : "latent"}).` : "Give a limit to see where it holds.";
  return { spoken: spoken.join(" "), each };
}

function derived() {
  const [n, d] = [state.at.get("N"), state.at.get("D")];
  $("derived").textContent = SLIDERS.has("N") && SLIDERS.has("D") && d > 0 ? `6 N D = ${shown(FLOPS * n * d, 3)} FLOPs; D / N = ${trimmed(d / n, 3)}` : "";
}

function table() {
  if (!$("curve-numbers").open || !drawn.length) return;
  const some = drawn[0].filter((_, k) => k % 10 === 0).map((_, j) => j * 10), heads = FITS.flatMap((fit) => ["latent median", "latent 90% eti", ...(fit.kind === "count" ? [] : ["next run, 90% eti"])].map((t) => (FITS.length > 1 ? `${fit.label}: ${t}` : t)));
  const body = some.map((k) => `<tr><th scope="row">${short4(drawn[0][k].value, SLIDERS.get(state.along).log)}</th>${drawn.map((points) => { const p = points[k]; return `<td class="n">${shown(p.latent[2])}</td><td class="n">${shown(p.latent[0])} to ${shown(p.latent[4])}</td>${p.next ? `<td class="n">${shown(p.next[0])} to ${shown(p.next[1])} (${p.spread})</td>` : ""}`; }).join("")}</tr>`);
  $("curve-table").innerHTML = `<table><thead><tr><th scope="col">${escaped(state.along)}</th>${heads.map((h) => `<th scope="col">${escaped(h)}</th>`).join("")}</tr></thead><tbody>${body.join("")}</tbody></table>`;
}

// What follows a slider at once; the slices, the allocation and the address come when it rests.
function now() {
  frame = 0;
  const { spoken } = cards();
  derived();
  if (state.along) drawn = FITS.map(curve);
  table();
  clearTimeout(timer);
  later = null;
  timer = setTimeout(() => rest(spoken), 160);
}

const named = (name, from, to) => Object.assign(axisOf(name, from, to), { name });

function rest(spoken) {
  $("spoken").textContent = spoken;
  history.replaceState(null, "", write());
  if (ALLOCATED.length && state.budget > 0) allocation();
  if (!state.x || !state.y || state.x === state.y) { document.body.dataset.ready = "yes"; return; }
  const box = $("maps"), width = widthOf(box, FITS.length), height = Math.round(Math.min(400, Math.max(270, width * 0.72)));
  const axesOf = (w, h) => [named(state.x, EDGE.left, w - EDGE.right), named(state.y, h - EDGE.bottom, EDGE.top)];
  const [x, y] = axesOf(width, height), work = grid(x, y), token = (later = {});
  const step = () => {
    if (later !== token) return;
    const end = performance.now() + SLICE_MS;
    let done = work.next();
    while (!done.done && performance.now() < end) done = work.next();
    if (!done.done) { setTimeout(step, 0); return; }
    slices(done.value, x, y, width, height);
    const wide = Math.min(widthOf($("region"), 1), 620), tall = Math.round(Math.min(400, wide * 0.66));
    $("region").dataset.text = region(done.value, ...axesOf(wide, tall), wide, tall);
    $("feasible").textContent = `${$("feasible").textContent.split(" On this slice")[0].split(" Nowhere on")[0]} ${$("region").dataset.text}`;
    document.body.dataset.ready = "yes";
  };
  step();
}

const change = () => { delete document.body.dataset.ready; if (!frame) frame = requestAnimationFrame(now); };

// --- controls ------------------------------------------------------------------------------------------------------------

const inputs = new Map();

const position = (s, value) => {
  if (s.log && !(value > 0)) return 0;
  const share = s.log ? Math.log(value / s.low) / Math.log(s.high / s.low) : (value - s.low) / (s.high - s.low);
  return Math.round(STEPS * Math.min(Math.max(share, 0), 1));
};
const valueAt = (s, place) => {
  if (s.zero && place === 0 && s.support[0] <= 0) return 0;
  const value = s.log ? s.low * (s.high / s.low) ** (place / STEPS) : s.low + ((s.high - s.low) * place) / STEPS;
  return place === 0 ? s.low : place === STEPS ? s.high : Number(value.toPrecision(4));
};

// Set one covariate; shares of a mixture keep their sum at one, the others in proportion.
function moveOne(at, name, value) {
  at.set(name, value);
  const shares = DATA.mixtures.find((names) => names.includes(name));
  if (!shares) return;
  const others = shares.filter((n) => n !== name), rest = others.reduce((sum, n) => sum + at.get(n), 0), left = 1 - value;
  others.forEach((n) => at.set(n, rest > 0 ? (at.get(n) / rest) * left : left / others.length));
}

function show(name, but = null) {
  const { range, field, far } = inputs.get(name), s = SLIDERS.get(name), value = state.at.get(name);
  if (range && range !== but) range.value = position(s, value);
  if (field !== but) { field.value = s.binary ? String(value) : trimmed(value); field.removeAttribute("aria-invalid"); }
  const outside = value > s.seenHigh * (1 + 1e-12) ? "above" : value < s.seenLow ? "below" : "";
  const factor = outside === "above" ? value / s.seenHigh : s.seenLow / value, by = outside && s.log && s.seenLow > 0 && factor < 1e6 ? ` (${trimmed(factor, 2)}x)` : "";
  if (far) far.textContent = outside ? `${outside} the runs${by}` : "";
  range?.setAttribute("aria-valuetext", `${short4(value, s.log)} ${s.unit}${outside ? `, ${outside} the runs` : ""}`);
}

function set(name, value, but) {
  moveOne(state.at, name, value);
  for (const one of DATA.mixtures.find((names) => names.includes(name)) ?? [name]) show(one, one === name ? but : null);
  change();
}

function slider(s) {
  const box = document.createElement("div"), id = `s-${inputs.size}`;
  box.className = "slider";
  const unit = escaped(s.idle ? `${s.unit}; the outcome does not depend on it` : s.unit);
  if (s.binary) {
    box.innerHTML = `<div class="head"><label for="${id}">${escaped(s.name)}</label><select id="${id}"><option>0</option><option>1</option></select></div><span class="unit">${unit}</span>`;
    const field = box.querySelector("select");
    field.addEventListener("change", () => set(s.name, Number(field.value), field));
    inputs.set(s.name, { field });
    return box;
  }
  const [a, b] = [position(s, Math.max(s.seenLow, s.log ? s.low : -Infinity)), position(s, s.seenHigh)].map((v) => (100 * v) / STEPS);
  box.innerHTML = `<div class="head"><label for="${id}">${escaped(s.name)}</label><input id="${id}" inputmode="decimal" autocomplete="off" aria-describedby="${id}-unit"></div><span class="unit" id="${id}-unit">${unit}</span><input type="range" min="0" max="${STEPS}" aria-label="${escaped(s.name)}"><div class="track"><i></i></div><span class="far"></span>`;
  const [field, range, run, far] = [box.querySelector("input"), box.querySelector('[type="range"]'), box.querySelector("i"), box.querySelector(".far")];
  run.style.left = `${a}%`;
  run.style.width = `${b - a}%`;
  range.addEventListener("input", () => set(s.name, valueAt(s, Number(range.value)), range));
  range.addEventListener("keydown", (event) => {
    const step = { PageUp: 10, PageDown: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    range.value = Number(range.value) + step;
    set(s.name, valueAt(s, Number(range.value)), range);
  });
  field.addEventListener("change", () => {
    const value = parsed(field.value);
    if (possible(s, value)) { set(s.name, value, field); field.removeAttribute("aria-invalid"); return; }
    field.setAttribute("aria-invalid", "true");
    far.textContent = `Write a number from ${trimmed(s.support[0])} to ${trimmed(s.support[1])}.`;
  });
  inputs.set(s.name, { range, field, far });
  return box;
}

const options = (values, names = values) => values.map((v, i) => `<option value="${escaped(v)}">${escaped(names[i])}</option>`).join("");

function controls() {
  const box = $("sliders"), nodes = document.createElement("details");
  nodes.innerHTML = "<summary>Changes of the learning rate, node by node</summary>";
  for (const s of DATA.sliders) (s.series ? nodes : box).append(slider(s));
  if (nodes.children.length > 1) box.append(nodes);
  $("columns").innerHTML = DATA.columns.map((column, i) => `<p class="column"><label for="level-${i}">${escaped(column.name)}</label><select id="level-${i}">${options(column.values)}</select></p>`).join("");
  DATA.columns.forEach((column, i) => $(`level-${i}`).addEventListener("change", (event) => { state.levels.set(column.name, event.target.value); change(); }));
  // A fitted run sets all covariates to those of its last row.
  const groups = FITS.map((fit, i) => { const last = new Map(fit.rows.run.map((run, row) => [run, row])); return [fit.label, [...last].map(([run, row]) => [`${i}:${row}`, run])]; });
  $("presets").innerHTML = `<p class="column"><label for="preset">Go to a run</label><select id="preset"><option value="">–</option>${groups.map(([label, of]) => `<optgroup label="${escaped(label)}">${of.map(([v, n]) => `<option value="${v}">${escaped(n)}</option>`).join("")}</optgroup>`).join("")}</select></p>`;
  $("preset").addEventListener("change", (event) => {
    const [i, row] = event.target.value.split(":").map(Number), fit = FITS[i];
    if (!fit || event.target.value === "") return;
    for (const name of state.at.keys()) { const value = rowValue(fit, name, row); if (Number.isFinite(value)) state.at.set(name, value); }
    for (const [column, of] of Object.entries(fit.rows.levels)) state.levels.set(column, of[row]);
    refresh();
  });
  const choices = AXES.map((s) => s.name);
  for (const key of ["along", "x", "y"]) $(key).innerHTML = options(choices);
  for (const key of ["along", "x", "y", "show", "on"]) $(key).addEventListener("change", (event) => {
    if (key === "x" && event.target.value === state.y) { state.y = state.x; $("y").value = state.y; }
    if (key === "y" && event.target.value === state.x) { state.x = state.y; $("x").value = state.x; }
    state[key] = event.target.value;
    change();
  });
  $("limits").innerHTML = FITS.map((fit, i) => `<p><label for="way-${i}">${escaped(fit.label)}: ${escaped(fit.outcome)}</label> <select id="way-${i}" aria-label="Direction of the limit of ${escaped(fit.label)}"><option value="<">at most</option><option value=">">at least</option></select> <input id="limit-${i}" inputmode="decimal" size="7" aria-label="Limit of ${escaped(fit.label)}, ${escaped(nameOf(fit))}; empty for none"> ${escaped(fit.unit)}</p>`).join("");
  FITS.forEach((_, i) => {
    $(`way-${i}`).addEventListener("change", (event) => { state.limits[i].most = event.target.value === "<"; change(); });
    $(`limit-${i}`).addEventListener("input", (event) => { state.limits[i].value = parsed(event.target.value); event.target.setAttribute("aria-invalid", String(event.target.value.trim() !== "" && !Number.isFinite(state.limits[i].value))); change(); });
  });
  const positive = (id, key, good) => $(id).addEventListener("change", (event) => {
    const value = parsed(event.target.value), bad = !good(value);
    event.target.setAttribute("aria-invalid", String(bad));
    if (bad) return;
    state[key] = value;
    refresh(event.target);
  });
  positive("wanted", "wanted", (v) => v > 0 && v < 1);
  positive("budget", "budget", (v) => v > 0 && Number.isFinite(v));
  $("budget-slider").max = STEPS;
  $("budget-slider").addEventListener("input", (event) => { state.budget = valueAt(BUDGET, Number(event.target.value)); $("budget").value = trimmed(state.budget); say(); change(); });
  $("reset").addEventListener("click", () => { state = begin(); refresh(); });
  $("copy").addEventListener("click", async () => {
    history.replaceState(null, "", write());
    try { await navigator.clipboard.writeText(location.href); $("copied").textContent = "Copied."; } catch { $("copied").textContent = "Copy it from the address bar."; }
    setTimeout(() => { $("copied").textContent = ""; }, 4000);
  });
  $("curve-numbers").addEventListener("toggle", table);
  for (const id of ["maps", "region"]) $(id).addEventListener("click", (event) => {
    const svg = event.target.closest("svg");
    if (!svg) return;
    const place = svg.getBoundingClientRect(), [, , w, h] = svg.getAttribute("viewBox").split(" ").map(Number), x = named(state.x, EDGE.left, w - EDGE.right), y = named(state.y, h - EDGE.bottom, EDGE.top);
    const px = ((event.clientX - place.left) * w) / place.width, py = ((event.clientY - place.top) * h) / place.height;
    if (px < x.from || px > x.to || py < y.to || py > y.from) return;
    set(x.name, Number(x.value(px).toPrecision(4)));
    set(y.name, Number(y.value(py).toPrecision(4)));
  });
}

const compute = (a, b) => FLOPS * a * b;
const BUDGET = ALLOCATED.length ? { log: true, low: compute(Math.max(SLIDERS.get("N").seenLow, 1), Math.max(SLIDERS.get("D").low, 1)), high: compute(SLIDERS.get("N").high, SLIDERS.get("D").high), support: [0, Infinity], zero: false } : null;
const say = () => $("budget-slider").setAttribute("aria-valuetext", `${shown(state.budget, 3)} FLOPs`);

function refresh(but = null) {
  for (const name of inputs.keys()) show(name);
  DATA.columns.forEach((column, i) => { $(`level-${i}`).value = state.levels.get(column.name); });
  for (const key of ["along", "x", "y", "show", "on"]) $(key).value = state[key];
  if ($("wanted") !== but) $("wanted").value = state.wanted;
  state.limits.forEach((limit, i) => { $(`way-${i}`).value = limit.most ? "<" : ">"; $(`limit-${i}`).value = Number.isFinite(limit.value) ? limit.value : ""; });
  if (BUDGET) { if ($("budget") !== but) $("budget").value = trimmed(state.budget); $("budget-slider").value = position(BUDGET, state.budget); say(); }
  change();
}

controls();
$("allocation").hidden = !ALLOCATED.length;
$("slice").hidden = AXES.length < 2;
$("region").hidden = AXES.length < 2;
document.querySelectorAll(".of-noise").forEach((one) => { one.hidden = FITS.every((fit) => fit.kind === "count"); });
state = read(location.hash);
refresh();
addEventListener("hashchange", () => { if (location.hash !== write()) { state = read(location.hash); refresh(); } });
let wide = innerWidth;
addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; widths.clear(); change(); } });
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  document.querySelectorAll("details.law").forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); });

// For those who work with the page's numbers in the browser's console: outcomes of all draws at a setting, by the fit's number.
window.bayeslaw = Object.freeze({
  outcomes: (fit, at, levels = {}) => outcomesAt(FITS[fit], new Map(Object.entries(at)), new Map(Object.entries(levels))),
  allocate: (fit, budget, at = Object.fromEntries(state.at), levels = {}) => allocate(FITS[fit], new Map(Object.entries(at)), new Map(Object.entries(levels)), budget),
  quantiles: (values, probs) => quantiles(Float64Array.from(values), probs),
  now: () => { cancelAnimationFrame(frame); now(); },
});
