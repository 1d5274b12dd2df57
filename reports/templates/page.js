"use strict";
// Sorting: a click on a column's heading sorts the rows within each group; a second one reverses.
for (const heading of document.querySelectorAll("thead th")) {
  const table = heading.closest("table");
  const column = heading.cellIndex;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = heading.textContent;
  heading.replaceChildren(button);
  button.addEventListener("click", () => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    for (const body of table.tBodies) {
      const rows = [...body.rows].filter((row) => !row.matches(".group, .derived"));
      rows.sort((a, b) => compare(a.cells[column], b.cells[column]) * (down ? -1 : 1));
      body.append(...rows, ...body.querySelectorAll(".derived"));
    }
  });
}

// Numbers sort by value, and cells without one come last; labels sort as people order them.
function compare(a, b) {
  if (a.tagName === "TH") return a.innerText.localeCompare(b.innerText, "en", { numeric: true });
  const texts = ![a, b].some((cell) => "sort" in cell.dataset);
  if (texts) return a.innerText.localeCompare(b.innerText, "en", { numeric: true });
  const [x, y] = [a, b].map((cell) => ("sort" in cell.dataset ? Number(cell.dataset.sort) : Infinity));
  return x === y ? 0 : x - y;
}

// Theme: the system's, or the one chosen here; kept for the visit only.
const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
function isDark() {
  return (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
}
function name() {
  theme.textContent = isDark() ? "light" : "dark";
  theme.setAttribute("aria-label", `Switch to ${theme.textContent} colours`);
}
theme.hidden = false;
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  name();
});
dark.addEventListener("change", name);
name();
