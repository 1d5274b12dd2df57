"use strict";
// Training curves: which runs, which quantity, against what; the value under the pointer.
(() => {
  const root = document.getElementById("curves");
  const { curves } = JSON.parse(document.getElementById("curves-data").textContent);
  if (!root || !curves.length) return;
  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT] = [760, 380];
  const EDGE = { left: 64, right: 14, top: 12, bottom: 44 };
  const COLORS = ["--deeploop", "--base", "--other-1", "--failed", "--other-2", "--other-3", "--other-4"];
  const QUANTITIES = {
    loss: "train loss",
    validation_loss: "validation loss",
    learning_rate: "learning rate",
    grad_norm: "gradient norm",
  };
  const groups = [...new Set(curves.flatMap((curve) => curve.groups))];

  const html = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  const svg = (tag, attributes, parent, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const select = (id, label, options) => {
    const box = html("select", { id }, ...options.map(([value, text]) => html("option", { value }, text)));
    box.addEventListener("change", draw);
    controls.append(html("label", {}, `${label} `, box));
    return box;
  };

  const controls = html("div", { className: "controls" });
  const plot = html("div", { className: "plot" });
  const tip = html("div", { className: "tip", hidden: true });
  const list = html("fieldset", {}, html("legend", {}, "Runs"));
  root.append(controls, plot, list);
  root.hidden = false;

  const quantity = select("curve-quantity", "Show", Object.entries(QUANTITIES));
  const against = select("curve-against", "against", [["step", "steps"], ["seen", "tokens or puzzles"]]);
  const scale = select("curve-scale", "scale", [["linear", "linear"], ["log", "logarithmic"]]);
  const boxes = curves.map((curve, index) => {
    const box = html("input", { type: "checkbox", checked: curve.groups[0] === groups[0] });
    box.addEventListener("change", draw);
    const swatch = html("span", { className: "swatch" });
    swatch.style.background = `var(${COLORS[index % COLORS.length]})`;
    list.append(html("label", {}, box, swatch, curve.run));
    return box;
  });
  const choose = (text, wanted) => {
    const button = html("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      boxes.forEach((box, index) => { box.checked = wanted(curves[index]); });
      draw();
    });
    controls.append(button);
  };
  for (const group of groups) choose(group, (curve) => curve.groups.includes(group));
  choose("all", () => true);
  choose("none", () => false);

  // The points of a run for the chosen quantity; a missing value is a gap.
  function points(curve) {
    const steps = quantity.value === "validation_loss" ? curve.validation_step : curve.step;
    const factor = against.value === "seen" ? curve.per_step : 1;
    const usable = (y) => y !== null && y !== undefined && (scale.value === "linear" || y > 0);
    return steps.map((step, index) => [step * factor, curve[quantity.value][index], step])
      .map(([x, y, step]) => [x, usable(y) ? y : null, step]);
  }

  function draw() {
    const shown = curves.map((curve, index) => ({ curve, index, points: points(curve) }))
      .filter(({ index }) => boxes[index].checked);
    const known = shown.flatMap((series) => series.points.filter(([, y]) => y !== null));
    const image = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" }, plot);
    image.setAttribute("aria-label", `${QUANTITIES[quantity.value]} of ${shown.length} runs`);
    plot.replaceChildren(image, tip);
    tip.hidden = true;
    if (!known.length) {
      svg("text", { x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle" }, image, "no run selected has it");
      return;
    }
    const x = axis(known.map((point) => point[0]), EDGE.left, WIDTH - EDGE.right, false);
    const y = axis(known.map((point) => point[1]), HEIGHT - EDGE.bottom, EDGE.top, scale.value === "log");
    grid(image, x, y);
    for (const series of shown) line(image, series, x, y);
    image.addEventListener("pointermove", (event) => hover(event, image, shown, x, y));
    image.addEventListener("pointerleave", () => { tip.hidden = true; mark(image); });
  }

  // A scale with its ticks: `to` places a value.
  function axis(values, start, end, logarithmic) {
    const f = logarithmic ? Math.log10 : (value) => value;
    let low = Infinity, high = -Infinity;
    for (const value of values) { low = Math.min(low, f(value)); high = Math.max(high, f(value)); }
    if (low === high) { low -= 0.5; high += 0.5; }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((unit) => unit * power).find((unit) => unit >= rough);
    const ticks = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) ticks.push(at);
    const place = (at) => start + ((at - low) / (high - low)) * (end - start);
    return { to: (value) => place(f(value)), ticks: ticks.map((at) => [place(at), logarithmic ? 10 ** at : at]) };
  }

  function short(value) {
    const size = Math.abs(value);
    for (const [unit, name] of [[1e9, " B"], [1e6, " M"], [1e4, " k"]]) {
      if (size >= unit) return `${+(value / (unit === 1e4 ? 1e3 : unit)).toPrecision(4)}${name}`;
    }
    return size && size < 1e-3 ? value.toExponential(1) : String(+value.toPrecision(4));
  }

  function grid(image, x, y) {
    const bottom = HEIGHT - EDGE.bottom;
    for (const [at, value] of y.ticks) {
      svg("line", { class: "tick", x1: EDGE.left, x2: WIDTH - EDGE.right, y1: at, y2: at }, image);
      svg("text", { x: EDGE.left - 8, y: at + 4, "text-anchor": "end" }, image, short(value));
    }
    for (const [at, value] of x.ticks) {
      svg("text", { x: at, y: bottom + 18, "text-anchor": "middle" }, image, short(value));
    }
    svg("line", { class: "axis", x1: EDGE.left, x2: WIDTH - EDGE.right, y1: bottom, y2: bottom }, image);
    const name = against.value === "seen" ? "tokens or puzzles seen" : "step";
    svg("text", { x: (EDGE.left + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, image, name);
  }

  function line(image, { index, points: all }, x, y) {
    let path = "", open = false;
    for (const [at, value] of all) {
      if (value === null) { open = false; continue; }
      path += `${open ? "L" : "M"}${x.to(at).toFixed(1)} ${y.to(value).toFixed(1)}`;
      open = true;
    }
    svg("path", { d: path, fill: "none", "stroke-width": 1.6, class: "curve",
      style: `stroke: var(${COLORS[index % COLORS.length]})` }, image);
  }

  function mark(image, at) {
    image.querySelector(".mark")?.remove();
    if (at) svg("circle", { class: "mark", cx: at[0], cy: at[1], r: 4, fill: "var(--ink)" }, image);
  }

  function hover(event, image, shown, x, y) {
    const frame = image.getBoundingClientRect(), zoom = WIDTH / frame.width;
    const [left, top] = [(event.clientX - frame.left) * zoom, (event.clientY - frame.top) * zoom];
    let best = null, near = Infinity;
    for (const { curve, points: all } of shown) {
      for (const [at, value, step] of all) {
        if (value === null) continue;
        const distance = Math.hypot(x.to(at) - left, y.to(value) - top);
        if (distance < near) { near = distance; best = { curve, at, value, step }; }
      }
    }
    if (!best) return;
    const place = [x.to(best.at), y.to(best.value)];
    mark(image, place);
    const seen = best.curve.per_step ? `, ${short(best.step * best.curve.per_step)} ${best.curve.unit}` : "";
    tip.textContent = `${best.curve.run}: ${+best.value.toPrecision(5)} at step ${best.step.toLocaleString("en")}${seen}`;
    tip.hidden = false;
    const half = WIDTH / 2;
    tip.style.left = place[0] < half ? `${(place[0] + 10) / zoom}px` : "auto";
    tip.style.right = place[0] < half ? "auto" : `${(WIDTH - place[0] + 10) / zoom}px`;
    tip.style.top = `${Math.max(0, place[1] - 34) / zoom}px`;
  }

  draw();
})();
