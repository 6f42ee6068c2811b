// The explorer's script, second part: pictures as SVG, and the allocation of compute.
// --- pictures --------------------------------------------------------------------------------------------------------

const EDGE = { left: 62, right: 14, top: 10, bottom: 42 };

function scale(low, high, log, from, to) {
  const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high],
    per = (to - from) / (b - a || 1);
  const pixel = (v) => from + ((log ? Math.log(v) : v) - a) * per;
  return {
    low,
    high,
    log,
    from,
    to,
    pixel,
    value: (px) => (log ? Math.exp(a + (px - from) / per) : a + (px - from) / per),
    at: (i, n) => (log ? Math.exp(a + ((b - a) * i) / n) : a + ((b - a) * i) / n),
  };
}

function ticks({ low, high, log, from, to }) {
  const most = Math.max(2, Math.floor(Math.abs(to - from) / (to > from ? 62 : 32))),
    places = [];
  if (log && high / low > 8) {
    const decades = Math.log10(high / low),
      parts = decades < most / 2.5 ? [1, 2, 5] : decades < most / 1.6 ? [1, 3] : [1],
      every = Math.ceil(decades / most);
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
      if (e % every === 0)
        for (const p of parts) {
          const v = Number(`${p}e${e}`);
          if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) places.push(v);
        }
    return places;
  }
  const rough = (high - low) / most,
    power = 10 ** Math.floor(Math.log10(rough)),
    step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) ?? rough;
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) places.push(Number((i * step).toPrecision(12)));
  return places;
}

function axes(x, y, xLabel, yLabel, height, lines = true) {
  const right = x.to,
    bottom = y.from,
    parts = [];
  for (const v of ticks(x))
    parts.push(
      `<path class="grid" d="M${x.pixel(v).toFixed(1)} ${lines ? y.to : bottom + 5}V${bottom}"/><text class="soft" text-anchor="middle" x="${x.pixel(v).toFixed(1)}" y="${bottom + 16}">${short(v, x.log)}</text>`,
    );
  for (const v of ticks(y))
    parts.push(
      `<path class="grid" d="M${lines ? right : x.from - 5} ${y.pixel(v).toFixed(1)}H${x.from}"/><text class="soft" text-anchor="end" x="${x.from - 6}" y="${(y.pixel(v) + 4).toFixed(1)}">${short(v, y.log)}</text>`,
    );
  parts.push(`<text text-anchor="middle" x="${(x.from + right) / 2}" y="${height - 6}">${escaped(xLabel)}</text>`);
  parts.push(`<text text-anchor="middle" transform="translate(13 ${(y.to + bottom) / 2}) rotate(-90)">${escaped(yLabel)}</text>`);
  return parts.join("");
}

const labelOf = (name) => {
  const s = SLIDERS.get(name);
  return s && s.unit ? `${name} (${s.unit})` : name;
};
const line = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
const between = (low, high) => (low.length ? `${line(low)}${line([...high].reverse()).replace("M", "L")}Z` : "");

function figure(box, i, caption) {
  while (box.children.length <= i) {
    const empty = document.createElement("figure");
    empty.innerHTML = '<figcaption></figcaption><svg role="img"></svg>';
    box.append(empty);
  }
  const [head, svg] = box.children[i].children;
  if (head.dataset.text !== caption) {
    head.dataset.text = caption;
    head.textContent = caption;
  }
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
  const s = SLIDERS.get(name),
    value = state.at.get(name);
  const inside = s.log && !(value > 0) ? s.low : value;
  return scale(Math.min(s.low, inside), Math.max(s.high, inside), s.log, from, to);
}

// How near a fitted row is to the setting in all covariates but some: 1 is equal, and `FAINT` the least.
function nearness(fit, row, but) {
  const { names, values, levels, run } = fit.rows,
    count = run.length;
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

const rowValue = (fit, name, row) => {
  const i = fit.rows.names.indexOf(name);
  return i < 0 ? NaN : fit.rows.values[i * fit.rows.run.length + row];
};

// Bands along a covariate. They stay while only this covariate moves, within the axis.
const kept = [];
function pointsAlong(fit, i, x) {
  const others = [...state.at].filter(([name]) => name !== state.along); // other shares of a mixture move with it, and so it is drawn anew
  const key = JSON.stringify([state.along, x.low, x.high, x.from, x.to, others, [...state.levels]]);
  if (kept[i]?.key === key) return kept[i].points;
  const at = new Map(state.at),
    points = [];
  for (let k = 0; k <= POINTS; k++) {
    const value = x.at(k, POINTS);
    move(at, { [state.along]: value });
    const here = outcomesAt(fit, at, state.levels),
      next = here.next && quantiles(here.next, [0.05, 0.95]);
    points.push({ value, px: x.pixel(value), latent: quantiles(here.latent, PROBS), next, away: here.away, spread: here.spread });
  }
  kept[i] = { key, points };
  return points;
}

function curve(fit, i) {
  const box = $("curves"),
    width = widthOf(box, FITS.length),
    height = Math.round(Math.min(330, Math.max(250, width * 0.62)));
  const x = axisOf(state.along, EDGE.left, width - EDGE.right),
    s = SLIDERS.get(state.along),
    points = pointsAlong(fit, i, x);
  const seen = [],
    good = points.filter((p) => p.latent.every(Number.isFinite));
  const values = good
    .flatMap((p) => [p.latent[0], p.latent[4], ...(p.next ?? [])])
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  for (let row = 0; row < fit.rows.run.length; row++) {
    const value = rowValue(fit, state.along, row),
      outcome = fit.rows.outcomes[row],
      near = nearness(fit, row, [state.along]);
    if (Number.isFinite(value) && (!x.log || value > 0)) seen.push({ px: x.pixel(value), outcome, near });
  }
  const near = seen.filter((p) => p.near > 0.3).map((p) => p.outcome);
  let low = Math.min(...near, values[0] ?? 0),
    high = Math.max(...near, values[Math.floor(0.995 * (values.length - 1))] ?? 1);
  if (!(high > low)) {
    low -= 0.5;
    high += 0.5;
  }
  const margin = 0.04 * (high - low),
    y = scale(
      Math.max(low - margin, fit.low === 0 && low >= 0 ? 0 : -Infinity),
      high + margin,
      false,
      height - EDGE.bottom,
      EDGE.top,
    );
  const band = (a, b) =>
    between(
      good.map((p) => [p.px, y.pixel(p.latent[a])]),
      good.map((p) => [p.px, y.pixel(p.latent[b])]),
    );
  const parts = [axes(x, y, labelOf(state.along), nameOf(fit), height)];
  for (let k = 0; k < points.length; k++)
    if (points[k].away) {
      let end = k;
      while (end + 1 < points.length && points[end + 1].away) end++;
      parts.push(
        `<path class="away" d="M${points[k].px.toFixed(1)} ${y.to}H${points[end].px.toFixed(1)}V${y.from}H${points[k].px.toFixed(1)}Z"/>`,
      );
      k = end;
    }
  const clip = `clip${i}`,
    dots = seen.map((p) =>
      p.outcome >= y.low && p.outcome <= y.high
        ? `<circle class="run" fill-opacity="${(0.85 * p.near).toFixed(2)}" cx="${p.px.toFixed(1)}" cy="${y.pixel(p.outcome).toFixed(1)}" r="2.6"/>`
        : "",
    );
  parts.push(
    `<clipPath id="${clip}"><rect x="${x.from}" y="${y.to}" width="${x.to - x.from}" height="${y.from - y.to}"/></clipPath><g clip-path="url(#${clip})">`,
  );
  parts.push(`<path class="band90" d="${band(0, 4)}"/><path class="band50" d="${band(1, 3)}"/>${dots.join("")}`);
  const noted = good.filter((p) => p.next?.every(Number.isFinite));
  if (noted.length)
    parts.push(...[0, 1].map((end) => `<path class="next" d="${line(noted.map((p) => [p.px, y.pixel(p.next[end])]))}"/>`));
  parts.push(`<path class="median" d="${line(good.map((p) => [p.px, y.pixel(p.latent[2])]))}"/></g>`);
  const now = state.at.get(state.along),
    px = x.pixel(x.log ? Math.max(now, x.low) : now);
  parts.push(`<path class="here" d="M${px.toFixed(1)} ${y.to}V${y.from}"/>`);
  const first = good[0],
    last = good[good.length - 1];
  const text = first
    ? `${fit.label}: median ${shown(first.latent[2])} at ${state.along} ${short(first.value, x.log)} to ${shown(last.latent[2])} at ${short(last.value, x.log)}; runs from ${short(s.seenLow, x.log)} to ${short(s.seenHigh, x.log)}. Numbers are in the table below.`
    : `${fit.label}: no finite ${fit.outcome} here`;
  paint(figure(box, i, `${fit.label}: ${nameOf(fit)} along ${state.along}`), width, height, parts.join(""), text);
  return points;
}

// A grid of settings over the two axes of the slice, computed a few cells at a time so that the page stays responsive.
function* grid(x, y) {
  const empty = () => new Float64Array(CELLS * CELLS).fill(NaN),
    fits = FITS.map(() => ({ median: empty(), width: empty() })),
    chance = empty();
  for (let cell = 0; cell < CELLS * CELLS; cell++) {
    const at = new Map(state.at);
    if (!move(at, { [x.name]: x.at((cell % CELLS) + 0.5, CELLS), [y.name]: y.at(Math.floor(cell / CELLS) + 0.5, CELLS) })) continue;
    const each = FITS.map((fit) => outcomesAt(fit, at, state.levels, state.on === "next"));
    chance[cell] = holds(each);
    each.forEach((here, i) => {
      const q = quantiles(here.latent, [0.05, 0.5, 0.95]);
      fits[i].median[cell] = q[1];
      fits[i].width[cell] = q[2] - q[0];
    });
    yield null;
  }
  return { fits, chance };
}

// The share of draws in which all limits hold.
function holds(each) {
  let count = 0;
  const limits = state.limits
    .map((limit, i) => ({ ...limit, values: (state.on === "next" && each[i].next) || each[i].latent }))
    .filter((l) => Number.isFinite(l.value));
  for (let s = 0; s < DATA.draws; s++)
    if (limits.every((l) => (l.most ? l.values[s] <= l.value : l.values[s] >= l.value))) count++;
  return limits.length ? count / DATA.draws : NaN;
}

// Marching squares: the line where values on the cells' centres cross a level, as separate pieces.
function contour(values, level, x, y) {
  const parts = [],
    px = (i) => x.from + ((i + 0.5) / CELLS) * (x.to - x.from),
    py = (j) => y.from + ((j + 0.5) / CELLS) * (y.to - y.from);
  for (let j = 0; j + 1 < CELLS; j++)
    for (let i = 0; i + 1 < CELLS; i++) {
      const corner = [
          [i, j],
          [i + 1, j],
          [i + 1, j + 1],
          [i, j + 1],
        ],
        v = corner.map(([a, b]) => values[b * CELLS + a] - level),
        crossed = [];
      if (!v.every(Number.isFinite)) continue;
      for (let k = 0; k < 4; k++) {
        const n = (k + 1) % 4;
        if (v[k] >= 0 !== v[n] >= 0) {
          const t = v[k] / (v[k] - v[n]);
          crossed.push([
            px(corner[k][0] + t * (corner[n][0] - corner[k][0])),
            py(corner[k][1] + t * (corner[n][1] - corner[k][1])),
          ]);
        }
      }
      for (let k = 0; k + 1 < crossed.length; k += 2) parts.push([crossed[k], crossed[k + 1]]);
    }
  return parts;
}
const pieces = (parts) => parts.map(line).join("");

// Cells end on whole pixels, so that none overlap.
function heat(values, x, y, opacity, kind = "") {
  const edge = (axis, i) => Math.round(axis.from + (i * (axis.to - axis.from)) / CELLS),
    parts = [];
  for (let j = 0; j < CELLS; j++)
    for (let i = 0; i < CELLS; i++) {
      const o = opacity(values[j * CELLS + i]),
        [left, right, bottom, top] = [edge(x, i), edge(x, i + 1), edge(y, j), edge(y, j + 1)];
      if (o > 0.004)
        parts.push(`<path class="heat ${kind}" fill-opacity="${o.toFixed(2)}" d="M${left} ${bottom}H${right}V${top}H${left}Z"/>`);
    }
  return parts.join("");
}

function marks(fit, x, y) {
  const parts = [],
    inside = (a, v) => Math.min(Math.max(a.log ? Math.max(v, a.low) : v, a.low), a.high);
  if (fit)
    for (let row = 0; row < fit.rows.run.length; row++) {
      const a = rowValue(fit, x.name, row),
        b = rowValue(fit, y.name, row);
      if (a >= x.low && a <= x.high && b >= y.low && b <= y.high)
        parts.push(
          `<circle class="run" fill-opacity="${(0.8 * nearness(fit, row, [x.name, y.name])).toFixed(2)}" cx="${x.pixel(a).toFixed(1)}" cy="${y.pixel(b).toFixed(1)}" r="2.3"/>`,
        );
    }
  const [sx, sy] = [SLIDERS.get(x.name), SLIDERS.get(y.name)],
    box = [
      x.pixel(inside(x, sx.seenLow)),
      x.pixel(inside(x, sx.seenHigh)),
      y.pixel(inside(y, sy.seenLow)),
      y.pixel(inside(y, sy.seenHigh)),
    ];
  parts.push(`<path class="frame" d="M${box[0]} ${box[2]}H${box[1]}V${box[3]}H${box[0]}Z"/>`);
  const [px, py] = [x.pixel(inside(x, state.at.get(x.name))), y.pixel(inside(y, state.at.get(y.name)))];
  parts.push(`<path class="here" d="M${px - 8} ${py}H${px + 8}M${px} ${py - 8}V${py + 8}"/>`);
  return parts.join("");
}

function slices(result, x, y, width, height) {
  FITS.forEach((fit, i) => {
    const values = result.fits[i][state.show],
      finite = [...values].filter(Number.isFinite).sort((a, b) => a - b),
      low = finite[0],
      high = finite[Math.floor(0.97 * (finite.length - 1))];
    const parts = [
      heat(values, x, y, (v) => (Number.isFinite(v) ? 0.75 * Math.min(Math.max((high - v) / (high - low || 1), 0), 1) : 0)),
      axes(x, y, labelOf(x.name), labelOf(y.name), height, false),
    ];
    for (const level of ticks({ low, high, log: false, from: 0, to: 400 })) {
      const segments = contour(values, level, x, y);
      parts.push(`<path class="level" d="${pieces(segments)}"/>`);
      if (segments.length) {
        const [a] = segments[Math.floor(segments.length / 2)];
        parts.push(
          `<text class="halo" text-anchor="middle" x="${a[0].toFixed(1)}" y="${(a[1] + 4).toFixed(1)}">${trimmed(level, 3)}</text>`,
        );
      }
    }
    parts.push(marks(fit, x, y));
    const what =
      state.show === "median" ? `latent median of ${nameOf(fit)}` : `width of the latent 90% interval of ${nameOf(fit)}`;
    paint(
      figure($("maps"), i, `${fit.label}: ${what}`),
      width,
      height,
      parts.join(""),
      `${fit.label}: ${what} over ${x.name} and ${y.name}, from ${shown(finite[0])} to ${shown(finite[finite.length - 1])}; stronger colour is lower`,
    );
  });
}

function region(result, x, y, width, height) {
  const any = state.limits.some((l) => Number.isFinite(l.value)),
    values = result.chance,
    best = Math.max(...values.filter(Number.isFinite));
  const parts = [
    any ? heat(values, x, y, (v) => 0.7 * v, "chance") : "",
    axes(x, y, labelOf(x.name), labelOf(y.name), height, false),
  ];
  if (any) {
    for (const level of [0.1, 0.5, 0.9])
      if (level !== state.wanted) parts.push(`<path class="level" d="${pieces(contour(values, level, x, y))}"/>`);
    parts.push(`<path class="wanted" d="${pieces(contour(values, state.wanted, x, y))}"/>`);
  }
  parts.push(marks(FITS.length === 1 ? FITS[0] : null, x, y));
  const least = values.findIndex((v) => v >= state.wanted),
    several = state.limits.filter((l) => Number.isFinite(l.value)).length > 1,
    text = !any
      ? "No limit is given."
      : least < 0
        ? `Nowhere on this slice ${several ? "do the limits hold" : "does the limit hold"} with probability ${state.wanted}: the largest is ${shown(best, 3)}.`
        : `On this slice ${several ? "they hold" : "it holds"} with probability ${state.wanted} or more where the thick line surrounds it; the least ${y.name} there is ${short(y.at(Math.floor(least / CELLS) + 0.5, CELLS), y.log)}, at ${x.name} = ${short(x.at((least % CELLS) + 0.5, CELLS), x.log)}.`;
  paint(figure($("region"), 0, "Probability that all limits hold"), width, height, parts.join(""), text);
  return text;
}

// --- allocation --------------------------------------------------------------------------------------------------------

const GOLDEN = (Math.sqrt(5) - 1) / 2,
  GRID = 80,
  SECTIONS = 45;

// N of least expected outcome at N D = k for each draw of a law: a grid of log N, then golden sections.
function bestOf(member, at, levels, k) {
  const [[lowN, highN], [lowD, highD]] = [member.supports.N, member.supports.D];
  const low = Math.max(Math.log(lowN), Math.log(k) - Math.log(highD)),
    high = Math.min(Math.log(highN), Math.log(k) - Math.log(Math.max(lowD, 1)));
  if (!(low < high)) return null;
  const S = member.size,
    x = place(member, at, levels),
    [n, d] = [member.covariates.indexOf("N"), member.covariates.indexOf("D")],
    expected = new Float64Array(S);
  const each = (logN, from, to) => {
    x[n] = Math.exp(logN);
    x[d] = k / x[n];
    member.run(member.draws, S, x, expected, from, to);
  };
  const least = new Float64Array(S).fill(Infinity),
    best = new Int32Array(S),
    point = (i) => low + ((high - low) * i) / (GRID - 1);
  for (let i = 0; i < GRID; i++) {
    each(point(i), 0, S);
    for (let s = 0; s < S; s++)
      if (expected[s] < least[s]) {
        least[s] = expected[s];
        best[s] = i;
      }
  }
  const N = new Float64Array(S),
    outcome = new Float64Array(S);
  let corner = 0;
  for (let s = 0; s < S; s++) {
    const value = (logN) => {
      each(logN, s, s + 1);
      return Number.isFinite(expected[s]) ? expected[s] : Infinity;
    };
    let a = point(Math.max(best[s] - 1, 0)),
      b = point(Math.min(best[s] + 1, GRID - 1)),
      c = b - GOLDEN * (b - a),
      e = a + GOLDEN * (b - a),
      atC = value(c),
      atE = value(e);
    for (let i = 0; i < SECTIONS; i++) {
      if (atC < atE) {
        b = e;
        e = c;
        atE = atC;
        c = b - GOLDEN * (b - a);
        atC = value(c);
      } else {
        a = c;
        c = e;
        atC = atE;
        e = a + GOLDEN * (b - a);
        atE = value(e);
      }
    }
    const middle = (a + b) / 2;
    N[s] = Math.exp(middle);
    outcome[s] = value(middle);
    if (Math.min(middle - low, high - middle) < 1e-6) corner++;
  }
  return { N, outcome, corner };
}

function allocate(fit, at, levels, budget) {
  const k = budget / FLOPS,
    parts = fit.members.map((member) => bestOf(member, at, levels, k));
  if (parts.some((p) => !p)) return null;
  const joined = (key) => Float64Array.from(parts.flatMap((p) => [...p[key]]));
  const N = joined("N");
  return {
    N,
    D: N.map((n) => k / n),
    outcome: joined("outcome"),
    corner: parts.reduce((sum, p) => sum + p.corner, 0) / DATA.draws,
  };
}

function isoflop(fit, i, best) {
  const box = $("isoflop"),
    width = widthOf(box, ALLOCATED.length),
    height = 270,
    k = state.budget / FLOPS,
    q = quantiles(best.N.slice(), PROBS),
    at = new Map(state.at);
  const bounds = fit.members[0].supports,
    low = Math.max(q[0] / 12, bounds.N[0], k / bounds.D[1]),
    high = Math.min(q[4] * 12, bounds.N[1], k / Math.max(bounds.D[0], 1));
  const x = scale(low, high, true, EDGE.left, width - EDGE.right),
    points = [];
  for (let j = 0; j <= 50; j++) {
    const n = x.at(j, 50);
    at.set("N", n);
    at.set("D", k / n);
    points.push({ px: x.pixel(n), q: quantiles(outcomesAt(fit, at, state.levels, false).latent, PROBS) });
  }
  const good = points.filter((p) => p.q.every(Number.isFinite)),
    values = good.flatMap((p) => [p.q[0], p.q[4]]),
    least = Math.min(...values),
    margin = 0.05 * (Math.max(...values) - least || 1);
  const y = scale(least - margin, Math.max(...values) + margin, false, height - EDGE.bottom, EDGE.top),
    shade = (a, b) =>
      `M${x.pixel(Math.max(q[a], low)).toFixed(1)} ${y.to}H${x.pixel(Math.min(q[b], high)).toFixed(1)}V${y.from}H${x.pixel(Math.max(q[a], low)).toFixed(1)}Z`;
  const band = (a, b) =>
    between(
      good.map((p) => [p.px, y.pixel(p.q[a])]),
      good.map((p) => [p.px, y.pixel(p.q[b])]),
    );
  const content = `<path class="away" d="${shade(0, 4)}"/><path class="away" d="${shade(1, 3)}"/>${axes(x, y, "N (parameters), D = C / 6N", nameOf(fit), height)}<path class="band90" d="${band(0, 4)}"/><path class="band50" d="${band(1, 3)}"/><path class="median" d="${line(good.map((p) => [p.px, y.pixel(p.q[2])]))}"/><path class="here" d="M${x.pixel(q[2]).toFixed(1)} ${y.to}V${y.from}"/>`;
  paint(
    figure(box, i, `${fit.label}: ${nameOf(fit)} at C = ${shown(state.budget, 3)} FLOPs`),
    width,
    height,
    content,
    `${fit.label}: outcome along N at this budget; best N has the median ${short(q[2], true)}, 90% interval ${short(q[0], true)} to ${short(q[4], true)}`,
  );
}

function allocation() {
  $("best").innerHTML = ALLOCATED.map((fit) => {
    const best = allocate(fit, state.at, state.levels, state.budget),
      head = FITS.length > 1 ? `<h3>${escaped(fit.label)}</h3>` : "";
    if (!best) return `<div class="card">${head}<p>This budget leaves no N and D in the law's supports.</p></div>`;
    isoflop(fit, ALLOCATED.indexOf(fit), best);
    const row = (name, values, log) => {
      const q = quantiles(Float64Array.from(values), PROBS);
      return `<tr><th scope="row">${name}</th>${[2, 1, 3, 0, 4].reduce((text, j, n) => (n === 0 ? `<td class="n">${short4(q[2], log)}</td>` : n % 2 ? `${text}<td class="n">${short4(q[j], log)} to ` : `${text}${short4(q[j], log)}</td>`), "")}</tr>`;
    };
    const ratio = best.D.map((d, s) => d / best.N[s]);
    const there = new Map(state.at);
    for (const name of ["N", "D"]) there.set(name, quantiles(Float64Array.from(best[name]), [0.5])[0]);
    const here = outcomesAt(fit, there, state.levels, false),
      reach = `<p class="where${here.away ? " far" : ""}">${here.away ? "▲ " : ""}The best N and D: ${escaped(where(here))}</p>`;
    const corner = best.corner
      ? `<p class="where far">In ${shown(100 * best.corner, 2)}% of the draws the optimum is a limit of N or D.</p>`
      : "";
    return `<div class="card">${head}<div class="scroll" tabindex="0" role="region" aria-label="Best N and D by ${escaped(fit.label)}"><table><thead><tr><th scope="col">best</th><th scope="col">median</th><th scope="col">50% eti</th><th scope="col">90% eti</th></tr></thead><tbody>${row("N", best.N, true)}${row("D", best.D, true)}${row("D / N", ratio, false)}${row(escaped(fit.outcome), best.outcome, false)}</tbody></table></div>${reach}${corner}</div>`;
  }).join("");
}
const short4 = (v, log) => (log ? short(v, true) : shown(v, 4));
