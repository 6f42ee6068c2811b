// The explorer's script, third part: what is on the page, and its controls.
// --- what is on the page ---------------------------------------------------------------------------------------------------

let later = null,
  frame = 0,
  timer = 0,
  drawn = [];

function cards() {
  const each = FITS.map((fit) => outcomesAt(fit, state.at, state.levels)),
    bars = [],
    spoken = [];
  const chance = holds(each);
  $("cards").innerHTML = FITS.map((fit, i) => {
    const here = each[i],
      q = quantiles(here.latent, PROBS),
      next = here.next && quantiles(here.next, PROBS),
      range = (v, a, b) => `${shown(v[a])} to ${shown(v[b])}`;
    const rows = [
      ["latent 50% eti", range(q, 1, 3)],
      ["latent 90% eti", range(q, 0, 4)],
    ];
    if (next) rows.push([`${here.spread} median`, shown(next[2])], [`${here.spread} 90% eti`, range(next, 0, 4)]);
    else rows.push(["next run", "not in this page: its items are counted"]);
    const name = FITS.length > 1 ? `<h3>${escaped(fit.label)}</h3>` : "",
      impossible = Number.isFinite(q[2]) ? "" : `<p class="where far">The law has no finite ${escaped(fit.outcome)} here.</p>`;
    bars.push(
      `<div><span>${escaped(fit.label)}</span><span><b>${shown(q[2])}</b> ${next ? `${here.spread} 90% eti: ${range(next, 0, 4)}` : `latent 90% eti: ${range(q, 0, 4)}`}</span></div>`,
    );
    spoken.push(
      `${fit.label}: ${fit.outcome} ${shown(q[2])}, 90% equal-tailed interval ${range(next ?? q, 0, 4)} (${next ? here.spread : "latent"}). ${where(here)}.`,
    );
    return `<div class="card">${name}<div class="big">${shown(q[2])} <small>${escaped(nameOf(fit))}, latent median</small></div><dl>${rows.map(([a, b]) => `<dt>${a}</dt><dd>${b}</dd>`).join("")}</dl>${impossible}<p class="where${here.away ? " far" : ""}">${here.away ? "▲ " : ""}${escaped(where(here))}</p></div>`;
  }).join("");
  $("bar").innerHTML = bars.join("");
  const limits = state.limits
    .map((l, i) => (Number.isFinite(l.value) ? `${FITS[i].label} ${l.most ? "at most" : "at least"} ${trimmed(l.value)}` : ""))
    .filter(Boolean);
  // Of an outcome whose items are counted the page has no next run, so that its limit is on what is expected.
  const latent = FITS.filter((fit, i) => fit.kind === "count" && Number.isFinite(state.limits[i].value)).map((fit) => fit.label),
    on =
      state.on === "latent" || latent.length === limits.length
        ? "latent"
        : `next run${latent.length ? `; latent for ${latent.join(", ")}` : ""}`;
  $("feasible").textContent = limits.length
    ? `At this setting, ${limits.join(" and ")} ${limits.length > 1 ? "hold together" : "holds"} with probability ${chance.toFixed(2)} (${on}).`
    : "Give a limit to see where it holds.";
  return { spoken: spoken.join(" "), each };
}

function derived() {
  const [n, d] = [state.at.get("N"), state.at.get("D")];
  $("derived").textContent =
    SLIDERS.has("N") && SLIDERS.has("D") && d > 0 ? `6 N D = ${shown(FLOPS * n * d, 3)} FLOPs; D / N = ${trimmed(d / n, 3)}` : "";
}

function table() {
  if (!$("curve-numbers").open || !drawn.length) return;
  const some = drawn[0].filter((_, k) => k % 10 === 0).map((_, j) => j * 10),
    heads = FITS.flatMap((fit) =>
      ["latent median", "latent 90% eti", ...(fit.kind === "count" ? [] : ["next run, 90% eti"])].map((t) =>
        FITS.length > 1 ? `${fit.label}: ${t}` : t,
      ),
    );
  const body = some.map(
    (k) =>
      `<tr><th scope="row">${short4(drawn[0][k].value, SLIDERS.get(state.along).log)}</th>${drawn
        .map((points) => {
          const p = points[k];
          return `<td class="n">${shown(p.latent[2])}</td><td class="n">${shown(p.latent[0])} to ${shown(p.latent[4])}</td>${p.next ? `<td class="n">${shown(p.next[0])} to ${shown(p.next[1])} (${p.spread})</td>` : ""}`;
        })
        .join("")}</tr>`,
  );
  $("curve-table").innerHTML =
    `<table><thead><tr><th scope="col">${escaped(state.along)}</th>${heads.map((h) => `<th scope="col">${escaped(h)}</th>`).join("")}</tr></thead><tbody>${body.join("")}</tbody></table>`;
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
  if (!state.x || !state.y || state.x === state.y) {
    document.body.dataset.ready = "yes";
    return;
  }
  const box = $("maps"),
    width = widthOf(box, FITS.length),
    height = Math.round(Math.min(400, Math.max(270, width * 0.72)));
  const axesOf = (w, h) => [named(state.x, EDGE.left, w - EDGE.right), named(state.y, h - EDGE.bottom, EDGE.top)];
  const [x, y] = axesOf(width, height),
    work = grid(x, y),
    token = (later = {});
  const step = () => {
    if (later !== token) return;
    const end = performance.now() + SLICE_MS;
    let done = work.next();
    while (!done.done && performance.now() < end) done = work.next();
    if (!done.done) {
      setTimeout(step, 0);
      return;
    }
    slices(done.value, x, y, width, height);
    const wide = Math.min(widthOf($("region"), 1), 620),
      tall = Math.round(Math.min(400, wide * 0.66));
    $("region").dataset.text = region(done.value, ...axesOf(wide, tall), wide, tall);
    $("feasible").textContent =
      `${$("feasible").textContent.split(" On this slice")[0].split(" Nowhere on")[0]} ${$("region").dataset.text}`;
    document.body.dataset.ready = "yes";
  };
  step();
}

const change = () => {
  delete document.body.dataset.ready;
  if (!frame) frame = requestAnimationFrame(now);
};

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

// Set covariates by their names; shares of a mixture keep their sum at one, the others in proportion. Whether there is such a setting:
// two shares may be more than one together.
function move(at, values) {
  const moved = Object.keys(values);
  moved.forEach((name) => at.set(name, values[name]));
  return DATA.mixtures.every((shares) => {
    const [given, others] = [shares.filter((n) => moved.includes(n)), shares.filter((n) => !moved.includes(n))],
      rest = others.reduce((sum, n) => sum + at.get(n), 0),
      left = given.reduce((whole, n) => whole - at.get(n), 1);
    if (!given.length) return true;
    others.forEach((n) => at.set(n, Math.max(rest > 0 ? (at.get(n) / rest) * left : left / others.length, 0)));
    return left > -1e-9;
  });
}

function show(name, but = null) {
  const { range, field, far } = inputs.get(name),
    s = SLIDERS.get(name),
    value = state.at.get(name);
  if (range && range !== but) range.value = position(s, value);
  if (field !== but) {
    field.value = s.binary ? String(value) : trimmed(value);
    field.removeAttribute("aria-invalid");
  }
  const outside = value > s.seenHigh * (1 + 1e-12) ? "above" : value < s.seenLow ? "below" : "";
  const factor = outside === "above" ? value / s.seenHigh : s.seenLow / value,
    by = outside && s.log && s.seenLow > 0 && factor < 1e6 ? ` (${trimmed(factor, 3)}x)` : "";
  if (far) far.textContent = outside ? `${outside} the runs${by}` : "";
  range?.setAttribute("aria-valuetext", `${short4(value, s.log)} ${s.unit}${outside ? `, ${outside} the runs` : ""}`);
}

function set(values, but) {
  const next = new Map(state.at);
  if (!move(next, values)) return;
  const changed = [...inputs.keys()].filter((name) => Object.hasOwn(values, name) || next.get(name) !== state.at.get(name));
  state.at = next;
  for (const name of changed) show(name, Object.hasOwn(values, name) ? but : null);
  change();
}

function slider(s) {
  const box = document.createElement("div"),
    id = `s-${inputs.size}`;
  box.className = "slider";
  const unit = escaped(s.idle ? `${s.unit}; the outcome does not depend on it` : s.unit);
  if (s.binary) {
    box.innerHTML = `<div class="head"><label for="${id}">${escaped(s.name)}</label><select id="${id}"><option>0</option><option>1</option></select></div><span class="unit">${unit}</span>`;
    const field = box.querySelector("select");
    field.addEventListener("change", () => set({ [s.name]: Number(field.value) }, field));
    inputs.set(s.name, { field });
    return box;
  }
  const [a, b] = [position(s, Math.max(s.seenLow, s.log ? s.low : -Infinity)), position(s, s.seenHigh)].map(
    (v) => (100 * v) / STEPS,
  );
  box.innerHTML = `<div class="head"><label for="${id}">${escaped(s.name)}</label><input id="${id}" inputmode="decimal" autocomplete="off" aria-describedby="${id}-unit"></div><span class="unit" id="${id}-unit">${unit}</span><input type="range" min="0" max="${STEPS}" aria-label="${escaped(s.name)}"><div class="track"><i></i></div><span class="far"></span>`;
  const [field, range, run, far] = [
    box.querySelector("input"),
    box.querySelector('[type="range"]'),
    box.querySelector("i"),
    box.querySelector(".far"),
  ];
  run.style.left = `${a}%`;
  run.style.width = `${b - a}%`;
  range.addEventListener("input", () => set({ [s.name]: valueAt(s, Number(range.value)) }, range));
  range.addEventListener("keydown", (event) => {
    const step = { PageUp: 10, PageDown: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    range.value = Number(range.value) + step;
    set({ [s.name]: valueAt(s, Number(range.value)) }, range);
  });
  field.addEventListener("change", () => {
    const value = parsed(field.value);
    if (possible(s, value)) {
      set({ [s.name]: value }, field);
      field.removeAttribute("aria-invalid");
      return;
    }
    field.setAttribute("aria-invalid", "true");
    far.textContent = `Write a number from ${trimmed(s.support[0])} to ${trimmed(s.support[1])}.`;
  });
  inputs.set(s.name, { range, field, far });
  return box;
}

// Mark a field that can't be used, and say beside it what to write; without `wrong` take the mark away.
function judge(field, wrong = "") {
  const line = field.closest("p");
  let note = line.querySelector(".far");
  field.setAttribute("aria-invalid", String(wrong !== ""));
  if (!note) {
    note = Object.assign(document.createElement("span"), { className: "far" });
    note.setAttribute("role", "status");
    line.append(" ", note);
  }
  note.textContent = wrong;
}

const options = (values, names = values) =>
  values.map((v, i) => `<option value="${escaped(v)}">${escaped(names[i])}</option>`).join("");

function controls() {
  const box = $("sliders"),
    nodes = document.createElement("details");
  nodes.innerHTML = "<summary>Changes of the learning rate, node by node</summary>";
  for (const s of DATA.sliders) (s.series ? nodes : box).append(slider(s));
  if (nodes.children.length > 1) box.append(nodes);
  $("columns").innerHTML = DATA.columns
    .map(
      (column, i) =>
        `<p class="column"><label for="level-${i}">${escaped(column.name)}</label><select id="level-${i}">${options(column.values)}</select></p>`,
    )
    .join("");
  DATA.columns.forEach((column, i) =>
    $(`level-${i}`).addEventListener("change", (event) => {
      state.levels.set(column.name, event.target.value);
      // A task has its own chance, as in forecasts.
      for (const [name, value] of Object.entries(column.facts[event.target.value] ?? {})) if (state.at.has(name)) state.at.set(name, value);
      refresh();
    }),
  );
  // A fitted run sets all covariates to those of its last row.
  const groups = FITS.map((fit, i) => {
    const last = new Map(fit.rows.run.map((run, row) => [run, row]));
    return [fit.label, [...last].map(([run, row]) => [`${i}:${row}`, run])];
  });
  $("presets").innerHTML =
    `<p class="column"><label for="preset">Go to a run</label><select id="preset"><option value="">–</option>${groups.map(([label, of]) => `<optgroup label="${escaped(label)}">${of.map(([v, n]) => `<option value="${v}">${escaped(n)}</option>`).join("")}</optgroup>`).join("")}</select></p>`;
  $("preset").addEventListener("change", (event) => {
    const [i, row] = event.target.value.split(":").map(Number),
      fit = FITS[i];
    if (!fit || event.target.value === "") return;
    for (const name of state.at.keys()) {
      const value = rowValue(fit, name, row);
      if (Number.isFinite(value)) state.at.set(name, value);
    }
    for (const [column, of] of Object.entries(fit.rows.levels)) state.levels.set(column, of[row]);
    refresh();
  });
  const choices = AXES.map((s) => s.name);
  for (const key of ["along", "x", "y"]) $(key).innerHTML = options(choices);
  for (const key of ["along", "x", "y", "show", "on"])
    $(key).addEventListener("change", (event) => {
      if (key === "x" && event.target.value === state.y) {
        state.y = state.x;
        $("y").value = state.y;
      }
      if (key === "y" && event.target.value === state.x) {
        state.x = state.y;
        $("x").value = state.x;
      }
      state[key] = event.target.value;
      change();
    });
  $("limits").innerHTML = FITS.map(
    (fit, i) =>
      `<p><label for="way-${i}">${escaped(fit.label)}: ${escaped(fit.outcome)}</label> <select id="way-${i}" aria-label="Direction of the limit of ${escaped(fit.label)}"><option value="<">at most</option><option value=">">at least</option></select> <input id="limit-${i}" inputmode="decimal" size="7" aria-label="Limit of ${escaped(fit.label)}, ${escaped(nameOf(fit))}; empty for none"> ${escaped(fit.unit)}</p>`,
  ).join("");
  FITS.forEach((_, i) => {
    $(`way-${i}`).addEventListener("change", (event) => {
      state.limits[i].most = event.target.value === "<";
      change();
    });
    $(`limit-${i}`).addEventListener("input", (event) => {
      state.limits[i].value = parsed(event.target.value);
      const read = event.target.value.trim() === "" || Number.isFinite(state.limits[i].value);
      judge(event.target, read ? "" : "Write a number, such as 2.3. There is no limit until then.");
      change();
    });
  });
  const positive = (id, key, good, what) =>
    $(id).addEventListener("change", (event) => {
      const value = parsed(event.target.value);
      judge(event.target, good(value) ? "" : `Write ${what}. The page still has ${trimmed(state[key])}.`);
      if (!good(value)) return;
      state[key] = value;
      refresh(event.target);
    });
  positive("wanted", "wanted", (v) => v > 0 && v < 1, "a probability between 0 and 1");
  positive("budget", "budget", (v) => v > 0 && Number.isFinite(v), "FLOPs above 0, such as 1e21");
  $("budget-slider").max = STEPS;
  $("budget-slider").addEventListener("input", (event) => {
    state.budget = valueAt(BUDGET, Number(event.target.value));
    $("budget").value = trimmed(state.budget);
    judge($("budget"));
    say();
    change();
  });
  $("reset").addEventListener("click", () => {
    state = begin();
    refresh();
  });
  $("copy").addEventListener("click", async () => {
    history.replaceState(null, "", write());
    try {
      await navigator.clipboard.writeText(location.href);
      $("copied").textContent = "Copied.";
    } catch {
      $("copied").textContent = "Copy it from the address bar.";
    }
    setTimeout(() => {
      $("copied").textContent = "";
    }, 4000);
  });
  $("curve-numbers").addEventListener("toggle", table);
  for (const id of ["maps", "region"])
    $(id).addEventListener("click", (event) => {
      const svg = event.target.closest("svg");
      if (!svg) return;
      const place = svg.getBoundingClientRect(),
        [, , w, h] = svg.getAttribute("viewBox").split(" ").map(Number),
        x = named(state.x, EDGE.left, w - EDGE.right),
        y = named(state.y, h - EDGE.bottom, EDGE.top);
      const px = ((event.clientX - place.left) * w) / place.width,
        py = ((event.clientY - place.top) * h) / place.height;
      if (px < x.from || px > x.to || py < y.to || py > y.from) return;
      set({ [x.name]: Number(x.value(px).toPrecision(4)), [y.name]: Number(y.value(py).toPrecision(4)) });
    });
}

const compute = (a, b) => FLOPS * a * b;
const BUDGET = ALLOCATED.length
  ? {
      log: true,
      low: compute(Math.max(SLIDERS.get("N").seenLow, 1), Math.max(SLIDERS.get("D").low, 1)),
      high: compute(SLIDERS.get("N").high, SLIDERS.get("D").high),
      support: [0, Infinity],
      zero: false,
    }
  : null;
const say = () => $("budget-slider").setAttribute("aria-valuetext", `${shown(state.budget, 3)} FLOPs`);

function refresh(but = null) {
  for (const name of inputs.keys()) show(name);
  DATA.columns.forEach((column, i) => {
    $(`level-${i}`).value = state.levels.get(column.name);
  });
  for (const key of ["along", "x", "y", "show", "on"]) $(key).value = state[key];
  if ($("wanted") !== but) $("wanted").value = state.wanted;
  judge($("wanted"));
  state.limits.forEach((limit, i) => {
    $(`way-${i}`).value = limit.most ? "<" : ">";
    $(`limit-${i}`).value = Number.isFinite(limit.value) ? limit.value : "";
    judge($(`limit-${i}`));
  });
  if (BUDGET) {
    if ($("budget") !== but) $("budget").value = trimmed(state.budget);
    judge($("budget"));
    $("budget-slider").value = position(BUDGET, state.budget);
    say();
  }
  change();
}

controls();
$("allocation").hidden = !ALLOCATED.length;
$("slice").hidden = AXES.length < 2;
$("region").hidden = $("colours").hidden = AXES.length < 2;
document.querySelectorAll(".of-noise").forEach((element) => {
  element.hidden = FITS.every((fit) => fit.kind === "count");
});
state = read(location.hash);
refresh();
addEventListener("hashchange", () => {
  if (location.hash !== write()) {
    state = read(location.hash);
    refresh();
  }
});
let wide = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== wide) {
    wide = innerWidth;
    widths.clear();
    change();
  }
});
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  document.querySelectorAll("details.law").forEach((law) => {
    law.open = true;
  });
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
});

// For those who work with the page's numbers in the browser's console: outcomes of all draws at a setting, by the fit's number.
window.bayeslaw = Object.freeze({
  outcomes: (fit, at, levels = {}) => outcomesAt(FITS[fit], new Map(Object.entries(at)), new Map(Object.entries(levels))),
  allocate: (fit, budget, at = Object.fromEntries(state.at), levels = {}) =>
    allocate(FITS[fit], new Map(Object.entries(at)), new Map(Object.entries(levels)), budget),
  quantiles: (values, probs) => quantiles(Float64Array.from(values), probs),
  now: () => {
    cancelAnimationFrame(frame);
    now();
  },
});
