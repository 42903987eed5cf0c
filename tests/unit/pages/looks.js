"use strict";
const every = (selector, root = document) => [...root.querySelectorAll(selector)];
const seen = element => element.checkVisibility({ contentVisibilityAuto: false, opacityProperty: true, visibilityProperty: true });
const shown = selector => every(selector).filter(seen);
const box = selector => document.querySelector(selector).getBoundingClientRect();
// Red, green, blue, alpha of what CSS says of a colour.
const channels = colour => {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  return [...numbers.slice(0, 3), numbers[3] ?? 1];
};
const over = (top, below) => top.slice(0, 3).map((value, at) => value * top[3] + below[at] * (1 - top[3]));
const light = colour => {
  const [red, green, blue] = colour.map(value => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
function background(element) {
  const above = [];
  for (let at = element; at; at = at.parentElement) above.push(channels(getComputedStyle(at).backgroundColor));
  return above.reverse().reduce((below, colour) => over(colour, below), [255, 255, 255]);
}
// The contrast of each text that can be read, as WCAG 2 defines it, with the text itself.
function contrasts() {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const [text, element] = [walk.currentNode.textContent.trim(), walk.currentNode.parentElement];
    if (!text || !seen(element) || ["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) continue;
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= getComputedStyle(at).opacity;
    const [ink, red, green, blue] = [channels(getComputedStyle(element)[element.closest("svg") ? "fill" : "color"])];
    const below = background(element);
    const [one, other] = [light(over([...ink.slice(0, 3), ink[3] * opacity], below)), light(below)].sort((a, b) => b - a);
    found.push([Math.round((one + 0.05) / (other + 0.05) * 100) / 100, text.slice(0, 60), element.className]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}
// Elements that stand out of the window, unless something scrolls them.
function overflowing() {
  return every("body *").filter(element => {
    const { right, left, width } = element.getBoundingClientRect();
    return width && seen(element) && (right > innerWidth + 1 || left < -1) && !element.closest(".scroll");
  }).map(element => `${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`);
}
// What elements that are coloured by a severity say, by the severity: {fail: ["✗", "✗ fail"], ...}; lists of hosts aside.
function signs() {
  const found = {};
  for (const severity of ["ok", "skipped", "info", "unknown", "warn", "fail"]) {
    const coloured = shown(`:is(td, .badge, nav label).${severity}`).map(element => element.textContent.trim().split(/\s/)[0]);
    if (coloured.length) found[severity] = [...new Set(coloured)];
  }
  return found;
}
function type(id, value) {
  const control = document.getElementById(id);
  control.value = value;
  control.dispatchEvent(new Event("input"));
}
const choose = (id, text) => type(id, every(`#${id} option`).find(one => one.textContent === text).value);
const head = name => every("table.matrix thead th").find(one => one.textContent === name);
function timed(action) {
  const start = performance.now();
  action();
  document.body.offsetHeight;
  return performance.now() - start;
}
