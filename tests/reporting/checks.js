"use strict";
// Runs inside a page under test; what it finds goes to the frame around.
(() => {
  const [name, theme] = location.search.slice(1).split(",");
  document.documentElement.dataset.theme = theme;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const shown = (node) => node.getClientRects().length > 0;

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  function rgba(color) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  }
  function luminance(color) {
    const [r, g, b] = [...rgba(color)].slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function ground(node) {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (rgba(color)[3] > 250) return color;
    }
    return "white";
  }
  const seen = new Map();
  function contrast(node) {
    const style = getComputedStyle(node);
    const [fore, back] = [node.closest("svg") ? style.fill : style.color, ground(node)];
    const key = `${fore} on ${back}`;
    if (!seen.has(key)) {
      const [a, b] = [luminance(fore), luminance(back)].sort((x, y) => y - x);
      seen.set(key, (a + 0.05) / (b + 0.05));
    }
    return seen.get(key);
  }
  function pale() {
    const bad = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || !shown(node)) continue;
      if (node.closest("script, style, .skip, option")) continue;
      if (contrast(node) < 4.5) bad.add(`${node.tagName}.${node.className} ${contrast(node).toFixed(2)}`);
    }
    return [...bad];
  }

  function sorting() {
    const table = all("table").find((one) => all("tbody:first-of-type tr:not(.derived) td:nth-child(2)[data-sort]", one).length > 2);
    if (!table) return null;
    const column = () => all("tbody:first-of-type tr:not(.group):not(.derived)", table)
      .map((row) => row.cells[1].dataset.sort);
    const button = table.querySelector("thead th:nth-child(2) button");
    button.click();
    const up = column();
    button.click();
    return { up, down: column() };
  }

  function selection() {
    const root = document.getElementById("curves");
    if (!root) return null;
    const count = () => all("path.curve", root).length;
    const press = (text) => all(".controls button", root).find((b) => b.textContent === text).click();
    press("all");
    const every = count();
    press("none");
    const none = count();
    all("input", root)[0].click();
    const one = count();
    const quantities = {};
    for (const option of all("#curve-quantity option", root)) {
      const box = root.querySelector("#curve-quantity");
      box.value = option.value;
      box.dispatchEvent(new Event("change"));
      quantities[option.value] = count();
    }
    const box = root.querySelector(".plot svg").getBoundingClientRect();
    root.querySelector(".plot svg").dispatchEvent(new PointerEvent("pointermove",
      { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true }));
    return { runs: all("input", root).length, every, none, one, quantities, tip: root.querySelector(".tip").textContent };
  }

  const found = {
    name,
    figures: all("figure").map((figure) => {
      const image = figure.querySelector("svg"), box = image.getBoundingClientRect();
      return { visible: box.width > 100 && box.height > 50, alt: image.getAttribute("aria-label") ?? "" };
    }),
    requests: performance.getEntriesByType("resource").map((entry) => entry.name).filter((url) => !url.startsWith("data:")),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    pale: pale(),
    sorting: sorting(),
    selection: selection(),
  };
  parent.postMessage(found, "*");
})();
