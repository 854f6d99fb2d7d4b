"use strict";
{
  const matrix = document.querySelector(".matrix");
  const rows = [...matrix.querySelectorAll("tbody tr:not(.group)")];
  const tools = document.querySelector(".tools");
  const [find, differ] = tools.querySelectorAll("input");
  const none = document.querySelector(".none");
  tools.hidden = false;

  const filter = () => {
    const wanted = find.value.trim().toLowerCase();
    for (const row of rows) {
      const text = row.querySelector("th").textContent.toLowerCase();
      row.hidden = !text.includes(wanted) || (differ.checked && !row.classList.contains("differs"));
    }
    for (const body of matrix.tBodies) body.hidden = !body.querySelector("tr:not(.group):not([hidden])");
    none.hidden = rows.some((row) => !row.hidden);
  };
  find.addEventListener("input", filter);
  differ.addEventListener("change", filter);

  // Arrows go from cell to cell, as in a grid.
  matrix.addEventListener("keydown", (event) => {
    const cell = event.target.closest(".cell");
    if (!cell) return;
    const seen = rows.filter((row) => !row.hidden);
    let line = seen.indexOf(cell.closest("tr"));
    let at = [...cell.closest("tr").querySelectorAll(".cell")].indexOf(cell);
    switch (event.key) {
      case "ArrowDown": line += 1; break;
      case "ArrowUp": line -= 1; break;
      case "ArrowRight": at += 1; break;
      case "ArrowLeft": at -= 1; break;
      default: return;
    }
    event.preventDefault();
    seen[line]?.querySelectorAll(".cell")[at]?.focus();
  });

  const theme = document.querySelector(".theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const now = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
  });
}
