"use strict";

const errors = [];
addEventListener("error", (event) => errors.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => errors.push(event.violatedDirective));

const answer = (ask) => {
  const element = document.createElement("pre");
  element.id = "answer";
  let value;
  try { value = ask(); } catch (error) { value = { failed: String(error.stack) }; }
  element.textContent = JSON.stringify(value);
  document.body.append(element);
};

const cells = () => [...document.querySelectorAll(".cell")];
const cell = (code, column) => document.getElementById(`p${column}-${code.toLowerCase()}`).closest("td").querySelector(".cell");

const look = () => ({
  width: innerWidth,
  scroll: document.documentElement.scrollWidth,
  loaded: performance.getEntriesByType("resource").length,
  errors,
});

// Contrast as the web's accessibility guidelines define it.
const channel = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  if (!text.startsWith("rgb")) throw new Error(`a colour of another kind: ${text}`);
  return [r / 255, g / 255, b / 255, a];
};
const over = (top, ground) => [0, 1, 2].map((i) => top[i] * top[3] + ground[i] * (1 - top[3]));
const ground = (element) => {
  if (!element) return parse(getComputedStyle(document.body).backgroundColor).slice(0, 3);
  const own = parse(getComputedStyle(element).backgroundColor);
  return own[3] === 1 ? own.slice(0, 3) : over(own, ground(element.parentElement));
};

const contrasts = () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const faint = [];
  let texts = 0;
  const sheet = document.querySelector("[popover]");
  sheet.showPopover();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const shown = element.checkVisibility() && !element.closest("script,style,.said");
    if (!shown || !walker.currentNode.textContent.trim()) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const below = ground(element);
    const ink = parse(style.color);
    let alpha = ink[3];
    for (let up = element; up; up = up.parentElement) alpha *= Number(getComputedStyle(up).opacity);
    const [light, dark] = [luminance(below), luminance(over([...ink.slice(0, 3), alpha], below))].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < 4.5) faint.push([walker.currentNode.textContent.trim().slice(0, 40), element.className, Math.round(ratio * 100) / 100]);
  }
  return { texts, faint };
};

const open = () => {
  const button = cell("PIDS", 1);
  const sheet = document.getElementById("p1-pids");
  const tip = button.nextElementSibling;
  const shown = (element) => getComputedStyle(element).display;
  const result = { before: sheet.matches(":popover-open"), tip: [shown(tip)] };
  button.focus({ focusVisible: true });
  result.tip.push(shown(tip));
  button.click();
  result.after = sheet.matches(":popover-open");
  result.text = sheet.innerText.replace(/\s+/g, " ");
  sheet.querySelector(".close").click();
  result.closed = sheet.matches(":popover-open");
  result.focus = document.activeElement === button;
  return result;
};

const keys = () => {
  const head = [...document.querySelectorAll(".matrix thead th")].slice(1).map((th) => th.textContent);
  const where = () => {
    const row = document.activeElement.closest("tr");
    const at = [...row.querySelectorAll(".cell")].indexOf(document.activeElement);
    return [row.querySelector("th code").textContent, head[at]];
  };
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const shown = () => [...document.querySelectorAll(".matrix tbody tr:not(.group)")].filter((row) => row.checkVisibility()).map((row) => row.querySelector("th code").textContent);
  const [find, differ] = document.querySelectorAll(".tools input");
  const result = { all: shown().length };
  cells()[0].focus();
  press("ArrowDown");
  result.down = where();
  press("ArrowRight");
  result.right = where();
  const search = (text) => { find.value = text; find.dispatchEvent(new Event("input")); };
  search("in one stream");
  result.found = shown();
  search("nothing like that");
  result.none = shown().length === 0 && document.querySelector(".none").checkVisibility();
  search("");
  differ.click();
  result.differing = shown();
  return result;
};

const shapes = () => Object.fromEntries(["native", "emulated", "absent"].map((state) => {
  const { x, y, width, height } = document.querySelector(`.cell.${state} > .shape`).getBoundingClientRect();
  return [state, [x, y, width, height]];
}));
