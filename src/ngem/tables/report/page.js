"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const LIGHT = { ink: "#1b1f24", soft: "#8a929a", grid: "#e4e7eb", blue: "#4477aa", green: "#228833", red: "#cc3311", yellow: "#b8860b" };
  const DARK = { ink: "#e6e6e6", soft: "#a8b0b8", grid: "#2c333b", blue: "#77aadd", green: "#55bb66", red: "#ff7755", yellow: "#ddaa33" };
  let printing = false;
  const color = (name) => (dark.matches && !printing ? DARK : LIGHT)[name];
  const faint = (name, alpha) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(color(name).slice(at, at + 2), 16));
    return `rgba(${r}, ${g}, ${b}, ${alpha})`;
  };

  const text = (value, digits = 4) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const useGrouping = Math.abs(value) >= 10000;
    return value.toLocaleString("en-US", { maximumSignificantDigits: useGrouping ? Math.max(digits, 5) : digits, useGrouping });
  };
  const day = (value) => new Date(864e5 * value).toISOString().slice(0, 10);
  const percent = (value) => (value > 0 && value < 0.0995 ? `${text(100 * value, 2)} %` : `${Math.round(100 * value)} %`);

  // Charts.

  const charts = new Set();
  const sizeOf = (place) => ({ width: Math.max(place.clientWidth, 200), height: Math.round(Math.min(380, Math.max(240, 0.5 * place.clientWidth))) });
  const resize = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const chart = target.chart;
      if (chart && !printing && chart.width !== sizeOf(target).width) chart.setSize(sizeOf(target));
    }
  });

  const axis = (label, values) => ({
    label,
    labelSize: 20,
    stroke: () => color("ink"),
    grid: { stroke: () => color("grid"), width: 1 },
    ticks: { stroke: () => color("grid"), width: 1 },
    values: values || ((chart, splits) => splits.map((split) => text(split, 6))),
  });
  const widthOfTexts = (chart, values) => 24 + 7 * Math.max(2, ...(values || []).map((value) => String(value).length));

  const STYLES = {
    line: { width: 1.8 },
    thin: { width: 1 },
    dotted: { width: 1, dash: [3, 4] },
    dots: { paths: () => null, size: 4, solid: true },
    rings: { paths: () => null, size: 7, solid: false },
    bars: { paths: uPlot.paths.bars({ size: [1, Infinity], gap: 1 }), width: 0, filled: true },
    edge: { width: 0 },
  };

  const toSeries = ({ label, style, color: name }) => {
    const { size, solid, filled, ...rest } = STYLES[style];
    const points = size
      ? { show: true, size, width: solid ? 0 : 1.6, stroke: () => color(name), fill: () => (solid ? color(name) : "transparent") }
      : { show: false };
    return {
      label: label || "more",
      class: label ? undefined : "quiet",
      stroke: () => color(name),
      fill: filled ? () => faint(name, 0.55) : undefined,
      points,
      spanGaps: false,
      value: (chart, value) => text(value),
      ...rest,
    };
  };

  const within = (given, zero) => {
    if (given) return () => given;
    return (chart, low, high) => {
      if (low === null) return [0, 1];
      const margin = 0.05 * (high - low) || 1;
      return [zero ? 0 : low - margin, high + margin];
    };
  };

  // Draws a chart into a place; more has hooks and texts of axes.
  const draw = (place, spec, more = {}) => {
    if (place.chart) {
      charts.delete(place.chart);
      place.chart.destroy();
      place.nextElementSibling.remove();
    }
    const hover = document.createElement("p");
    hover.className = "hover";
    place.after(hover);
    const notes = more.note || ((index) => (spec.notes && index !== null ? spec.notes[index] : ""));
    const options = {
      ...sizeOf(place),
      padding: [10, 12, 0, 0],
      scales: { x: { time: false, range: within(spec.xRange) }, y: { range: within(spec.yRange, spec.zero) } },
      axes: [axis(spec.xLabel, more.xTexts), { ...axis(spec.yLabel), size: widthOfTexts }],
      series: [{ label: spec.xName || spec.xLabel, value: (chart, value) => (value === null ? "–" : (more.xText || text)(value)) }, ...spec.series.map(toSeries)],
      bands: (spec.bands || []).map(([upper, lower]) => ({
        series: [upper + 1, lower + 1],
        fill: () => faint(spec.series[upper].color, 0.25),
      })),
      hooks: { ...more.hooks, setCursor: [(chart) => { hover.textContent = notes(chart.cursor.idx) || ""; }] },
    };
    if (more.xSplits) options.axes[0].splits = more.xSplits;
    const chart = new uPlot(options, [spec.x, ...spec.series.map((one) => one.values)], place);
    place.chart = chart;
    charts.add(chart);
    resize.observe(place);
    return chart;
  };

  const redraw = () => { for (const chart of charts) chart.redraw(false, true); };
  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("section details")) details.open = true;
    printing = true;
    redraw();
  });
  addEventListener("afterprint", () => { printing = false; redraw(); });

  for (const place of document.querySelectorAll("[data-chart]")) draw(place, data.charts[Number(place.dataset.chart)]);

  // The explorer.

  const make = (tag, attributes = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.append(...children);
    return element;
  };

  const { rows, columns, targets, left_out: leftOut } = data.explorer;
  const root = document.getElementById("explorer");
  const state = { target: 0, along: 0, width: 0.15, near: [], others: [], masses: [] };

  const unpacked = (packed) => {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Float64Array.from({ length: bytes.length / 2 }, (_, at) => view.getUint16(2 * at, true) / 65535);
  };
  for (const target of targets) {
    target.masses = unpacked(target.masses);
    target.cells = target.edges.length - 1;
    [target.low, target.high] = [target.edges[0], target.edges[target.cells]];
    target.width = (target.high - target.low) / target.cells;
    target.edge = (at) => target.low + target.width * at;
    // A cell of one whole number is named by it.
    target.cell = (at) => {
      const [low, high] = [target.edge(at), target.edge(at + 1)];
      if (!target.isWhole) return `${text(low)} to ${text(high)}`;
      return target.width === 1 ? text(low + 0.5) : `${text(low + 0.5)} to ${text(high - 0.5)}`;
    };
    for (const atom of target.atoms) {
      atom.masses = unpacked(atom.masses);
      atom.cell = Math.floor((atom.value - target.low) / target.width);
    }
  }

  for (const column of columns) {
    column.show = column.kind === "choice" ? (value) => column.labels[value] : column.kind === "date" ? day : text;
    if (column.kind === "choice") { column.at = 0; continue; }
    column.sorted = column.values.filter((value) => value !== null).sort((a, b) => a - b);
    // The fraction of the rows below a value, ties in the middle: skewed columns have useful sliders.
    const count = (value, upTo) => {
      let [low, high] = [0, column.sorted.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (column.sorted[middle] < value || (upTo && column.sorted[middle] === value)) low = middle + 1;
        else high = middle;
      }
      return low;
    };
    column.rank = (value) => (count(value, false) + count(value, true)) / (2 * column.sorted.length);
    column.ranks = column.values.map((value) => (value === null ? null : column.rank(value)));
    column.at = 50;
  }

  const valueOf = (column) =>
    column.kind === "choice" ? column.at : column.sorted[Math.round((column.at / 100) * (column.sorted.length - 1))];
  // How far a row is from the value that a column is set to: 0 to 1 of the rows, 1 for another category.
  const gap = (column, row) => {
    const value = column.values[row];
    if (value === null) return 1;
    if (column.kind === "choice") return value === column.at ? 0 : 1;
    return value === valueOf(column) ? 0 : Math.abs(column.ranks[row] - column.rank(valueOf(column)));
  };
  const rowsNear = (except) => {
    const set = columns.filter((column, number) => column.set && number !== except);
    return rows.map((_, row) => row).filter((row) => set.every((column) => gap(column, row) <= state.width));
  };
  const nearest = () => {
    const set = columns.filter((column) => column.set);
    const far = (row) => set.reduce((sum, column) => sum + gap(column, row) ** 2, 0);
    return rows.map((_, row) => row).reduce((best, row) => (far(row) < far(best) ? row : best), 0);
  };

  const average = (some) => {
    const { masses, cells } = targets[state.target];
    const sum = new Float64Array(cells + 2);
    for (const row of some) {
      for (let cell = 0; cell < cells + 2; cell++) sum[cell] += masses[row * (cells + 2) + cell] / some.length;
    }
    return sum;
  };
  // The probability of a single value that is one beside the density, in the rows that are shown.
  const exactly = (atom) => {
    const some = state.near.length ? state.near : [nearest()];
    return some.reduce((sum, row) => sum + atom.masses[row] / some.length, 0);
  };
  const quantile = (masses, level) => {
    let below = 0;
    const target = targets[state.target];
    for (let cell = 0; cell < target.cells + 2; cell++) {
      if (below + masses[cell] >= level) {
        if (cell === 0) return `below ${text(target.low)}`;
        if (cell === target.cells + 1) return `above ${text(target.high)}`;
        const atom = target.atoms.find((one) => one.cell === cell - 1 && exactly(one) > masses[cell] / 2);
        if (atom) return text(atom.value);
        if (target.isWhole) return target.cell(cell - 1);
        return text(target.edge(cell - 1 + (level - below) / masses[cell]));
      }
      below += masses[cell];
    }
    return `above ${text(targets[state.target].high)}`;
  };

  const describe = (column) => {
    if (column.kind === "choice") return `${column.name} = ${column.labels[column.at]}`;
    const middle = column.rank(valueOf(column));
    const end = (rank) => column.sorted[Math.min(column.sorted.length - 1, Math.max(0, Math.round(rank * (column.sorted.length - 1))))];
    return `${column.name} near ${column.show(valueOf(column))} (${column.show(end(middle - state.width))} to ${column.show(end(middle + state.width))})`;
  };

  const say = () => {
    const target = targets[state.target];
    const set = columns.filter((column) => column.set).map(describe);
    const where = set.length ? `near all of ${set.join(", ")}` : "in this page, because no column is set";
    const count = `${state.near.length} of ${rows.length} rows are ${where}.`;
    const predicted = `median ${quantile(state.masses, 0.5)}, and with 90 % probability between ${quantile(state.masses, 0.05)} and ${quantile(state.masses, 0.95)}`;
    if (!state.near.length) {
      const row = nearest();
      return `No row is ${where}. Free a column, or widen what counts as near. Shown is the nearest row, number ${rows[row]}: for ${target.name} the model predicts ${predicted}; its true value is ${text(target.y[row])}.`;
    }
    const support = target.support ? ` ${target.support}` : "";
    return `${count} For ${target.name} in these rows the model predicts: ${predicted}.${support}`;
  };

  const densitySpec = () => {
    const target = targets[state.target];
    const middles = Array.from({ length: target.cells }, (_, cell) => target.edge(cell + 0.5));
    const atoms = target.atoms.map((atom) => ({ ...atom, mass: exactly(atom) }));
    const own = (cell) => atoms.reduce((sum, atom) => sum + (atom.cell === cell ? atom.mass : 0), 0);
    const density = Array.from(state.masses.slice(1, -1), (mass, cell) => 100 * Math.max(0, mass - own(cell)));
    return {
      x: middles,
      xLabel: target.name,
      yLabel: "probability (%)",
      xRange: [target.low, target.high],
      zero: true,
      series: [
        { label: atoms.length ? "all other values (%)" : "probability (%)", values: density, style: "bars", color: "blue" },
        ...atoms.map((atom) => ({
          label: `exactly ${text(atom.value)} (%)`,
          values: middles.map((_, cell) => (cell === atom.cell ? 100 * atom.mass : null)),
          style: "bars",
          color: "red",
        })),
      ],
    };
  };
  const densityNote = (index) => {
    if (index === null || index === undefined) return "";
    const target = targets[state.target];
    const [low, high] = [target.edge(index), target.edge(index + 1)];
    const below = state.masses.slice(0, index + 2).reduce((sum, mass) => sum + mass, 0);
    const inside = state.near.filter((row) => target.y[row] >= low && target.y[row] < high).length;
    const most = target.isWhole ? high - 0.5 : high;
    const single = target.atoms.filter((atom) => atom.cell === index).map((atom) => `, exactly ${text(atom.value)}: ${percent(exactly(atom))}`);
    return `${target.cell(index)}: ${percent(state.masses[index + 1])}${single.join("")}; at most ${text(most)}: ${percent(Math.min(1, below))}; true values here: ${inside} of ${state.near.length}`;
  };
  const drawTicks = (chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.strokeStyle = faint("green", 0.8);
    ctx.lineWidth = devicePixelRatio;
    for (const row of state.near.length ? state.near : [nearest()]) {
      const at = chart.valToPos(targets[state.target].y[row], "x", true);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top + bbox.height);
      ctx.lineTo(at, bbox.top + 0.93 * bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };

  const MOST_BINS = 24;
  const bins = () => {
    const column = columns[state.along];
    if (column.kind === "choice") {
      return Array.from({ length: Math.min(MOST_BINS, column.labels.length) }, (_, label) => ({ low: label - 0.45, high: label + 0.45, has: (value) => value === label }));
    }
    const at = (level) => column.sorted[Math.round(level * (column.sorted.length - 1))];
    const [low, high] = at(0.01) < at(0.99) ? [at(0.01), at(0.99)] : [at(0), at(1)];
    const width = (high - low) / MOST_BINS;
    return Array.from({ length: MOST_BINS }, (_, bin) => {
      const [from, to] = [low + bin * width, low + (bin + 1) * width];
      return { low: from, high: to, has: (value) => value >= from && (value < to || (bin === MOST_BINS - 1 && value <= high)) };
    });
  };
  const drawCells = (chart) => {
    const { ctx, bbox } = chart;
    const target = targets[state.target];
    const values = columns[state.along].values;
    const filled = bins()
      .map((bin) => ({ bin, some: state.others.filter((row) => values[row] !== null && bin.has(values[row])) }))
      .filter(({ some }) => some.length)
      .map(({ bin, some }) => ({ bin, masses: average(some) }));
    // The darkest color is for the density: a value with a probability of its own would make it pale.
    const isSingle = (cell) => target.atoms.some((atom) => atom.cell === cell);
    const most = Math.max(...filled.map(({ masses }) => Math.max(...masses.slice(1, -1).filter((_, cell) => !isSingle(cell)))));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const { bin, masses } of filled) {
      const [left, right] = [bin.low, bin.high].map((value) => Math.round(chart.valToPos(value, "x", true)));
      for (let cell = 0; cell < target.cells; cell++) {
        const [bottom, top] = [cell, cell + 1].map((at) => Math.round(chart.valToPos(target.edge(at), "y", true)));
        ctx.fillStyle = faint("blue", 0.95 * Math.sqrt(Math.min(1, masses[cell + 1] / most)));
        ctx.fillRect(left, top, right - left, bottom - top);
      }
    }
    ctx.restore();
  };
  const drawPlace = (chart) => {
    const column = columns[state.along];
    if (!column.set) return;
    const { ctx, bbox } = chart;
    const at = chart.valToPos(valueOf(column), "x", true);
    ctx.save();
    ctx.strokeStyle = color("ink");
    ctx.setLineDash([4, 4]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  };
  const alongRows = () => {
    const { values } = columns[state.along];
    const all = bins();
    const [low, high] = [all[0].low, all[all.length - 1].high];
    return state.others.filter((row) => values[row] !== null && values[row] >= low && values[row] <= high).sort((a, b) => values[a] - values[b]);
  };
  const alongSpec = () => {
    const column = columns[state.along];
    const target = targets[state.target];
    const some = alongRows();
    const all = bins();
    return {
      x: some.map((row) => column.values[row]),
      xLabel: column.name,
      yLabel: target.name,
      xRange: [all[0].low, all[all.length - 1].high],
      yRange: [target.low, target.high],
      series: [{ label: `true ${target.name}`, values: some.map((row) => target.y[row]), style: "dots", color: "green" }],
    };
  };
  const alongNote = (index) => {
    const row = alongRows()[index];
    return row === undefined ? "" : `row ${rows[row]}: ` + columns.slice(0, 6).map((column) => `${column.name} = ${column.values[row] === null ? "missing" : column.show(column.values[row])}`).join(", ");
  };

  const density = root.querySelector(".density");
  const along = root.querySelector(".along");
  const drawBoth = () => {
    draw(density, densitySpec(), { note: densityNote, hooks: { draw: [drawTicks] } });
    const column = columns[state.along];
    const more = { note: alongNote, hooks: { drawClear: [drawCells], draw: [drawPlace] }, xText: column.show };
    if (column.kind !== "number") more.xTexts = (chart, splits) => splits.map((split) => (column.kind === "date" ? day(split) : column.labels[split] || ""));
    if (column.kind === "choice") more.xSplits = () => bins().map((_, label) => label);
    draw(along, alongSpec(), more);
  };
  const update = ({ anew = false } = {}) => {
    state.near = rowsNear();
    state.others = rowsNear(state.along);
    state.masses = average(state.near.length ? state.near : [nearest()]);
    root.querySelector(".said").textContent = say();
    for (const column of columns) column.refresh();
    if (anew) { drawBoth(); return; }
    for (const [place, spec] of [[density, densitySpec()], [along, alongSpec()]]) {
      place.chart.setData([spec.x, ...spec.series.map((one) => one.values)]);
    }
  };

  const control = (column) => {
    const box = make("input", { type: "checkbox", checked: column.set });
    const name = make("label", { title: column.name }, box, ` ${column.name}`);
    const input = column.kind === "choice"
      ? make("select", {}, ...column.labels.map((label, value) => make("option", { value, textContent: label })))
      : make("input", { type: "range", min: 0, max: 100, step: 1, value: column.at });
    input.setAttribute("aria-label", column.name);
    const output = make("output");
    const whole = make("div", { className: "control" }, name, input, output);
    column.refresh = () => {
      box.checked = column.set;
      input.value = column.at;
      whole.classList.toggle("any", !column.set);
      const shown = column.show(valueOf(column));
      output.textContent = column.set ? (column.kind === "choice" ? "" : shown) : "any value";
      input.setAttribute("aria-valuetext", column.set ? shown : "any value");
    };
    box.addEventListener("change", () => { column.set = box.checked; update(); });
    input.addEventListener("input", () => { column.at = Number(input.value); column.set = true; update(); });
    return whole;
  };
  const chooser = (label, options, chosen, choose) => {
    const input = make("select", {}, ...options.map((option, value) => make("option", { value, textContent: option })));
    input.value = chosen;
    input.addEventListener("change", () => { choose(Number(input.value)); update({ anew: true }); });
    input.setAttribute("aria-label", label);
    return make("div", { className: "control" }, make("span", { textContent: label }), input);
  };
  const toRow = (row) => {
    for (const column of columns) {
      const value = column.values[row];
      if (value === null) column.set = false;
      else column.at = column.kind === "choice" ? value : Math.round(100 * (column.sorted.indexOf(value) / Math.max(1, column.sorted.length - 1)));
    }
  };
  const button = (label, act) => {
    const made = make("button", { type: "button", textContent: label });
    made.addEventListener("click", () => { act(); update(); });
    return made;
  };

  if (!columns.length) {
    root.replaceChildren(make("p", { textContent: "There is nothing to explore: no column varies." }));
    return;
  }
  const controls = root.querySelector(".controls");
  const first = columns.findIndex((column) => column.kind !== "choice");
  state.along = Math.max(0, first);
  const width = make("input", { type: "range", min: 2, max: 50, step: 1, value: 100 * state.width });
  width.setAttribute("aria-label", "what counts as near");
  const widthText = make("output");
  const showWidth = () => { widthText.textContent = `${Math.round(100 * state.width)} % of the rows on either side`; };
  width.addEventListener("input", () => { state.width = Number(width.value) / 100; showWidth(); update(); });
  showWidth();
  if (targets.length > 1) controls.append(chooser("target", targets.map((one) => one.name), 0, (value) => { state.target = value; }));
  controls.append(
    chooser("right figure: along", columns.map((column) => column.name), state.along, (value) => { state.along = value; }),
    make("div", { className: "control" }, make("span", { textContent: "near: within" }), width, widthText),
    make("div", { className: "control" },
      button("free all columns", () => { for (const column of columns) column.set = false; }), " ",
      button("go to a random row", () => toRow(Math.floor(Math.random() * rows.length)))),
  );
  const MOST_OPEN = 8;
  controls.append(...columns.slice(0, MOST_OPEN).map(control));
  if (columns.length > MOST_OPEN) {
    const rest = make("div", {}, ...columns.slice(MOST_OPEN).map(control));
    const more = leftOut ? `; the ${leftOut} that matter least have none` : "";
    controls.append(make("details", {}, make("summary", { textContent: `${columns.length - MOST_OPEN} more columns, by how much they matter${more}` }), rest));
  }
  update({ anew: true });
})();
