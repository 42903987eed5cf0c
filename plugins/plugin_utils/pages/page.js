"use strict";
// Searches, filters and sorts what is on the page. Rows and names of hosts carry the host's number as data-h.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const RANKS = ["skipped", "ok", "info", "unknown", "warn", "fail"];
const find = id => document.getElementById(id);
const about = all("tr[data-groups]").map(row => ({
  text: row.textContent.toLowerCase(),
  groups: row.dataset.groups.split(" "),
  models: row.dataset.models?.split(" "),
}));
const ofHosts = all("[data-h]");
const findings = all(".finding").map(entry => [entry, all("[data-h]", entry)]);
const articles = all("article").map(article => [article, all(".finding", article)]);

function filter() {
  const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [group, model] = ["group", "model"].map(id => find(id)?.value);
  const matches = about.map(host => words.every(word => host.text.includes(word))
    && (!group || host.groups.includes(group)) && (!model || host.models.includes(model)));
  document.body.classList.toggle("filtered", Boolean(words.length || group || model));
  for (const element of ofHosts) element.hidden = !matches[element.dataset.h];
  for (const [entry, names] of findings) entry.hidden = names.every(name => name.hidden);
  for (const [article, entries] of articles) {
    article.hidden = entries.every(entry => entry.hidden || find("show-" + entry.classList[1])?.checked === false);
  }
  find("matching").textContent = `${matches.filter(Boolean).length} of ${matches.length} hosts`;
}

const collator = new Intl.Collator("en", { numeric: true });
function compare(one, other) {
  const rank = cell => RANKS.findIndex(name => cell.classList.contains(name));
  if (one.dataset.k) return one.dataset.k - other.dataset.k;
  const text = cell => (cell.querySelector("a") ?? cell).textContent;
  return rank(one) - rank(other) || collator.compare(text(one), text(other));
}
function sort(table, head) {
  const falling = head.getAttribute("aria-sort") === "ascending";
  all("th[aria-sort]", table).forEach(one => one.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  for (const body of table.tBodies) {
    const [there, missing] = [[], []]; // a host that was not judged has no cell, and comes last
    for (const row of body.rows) (row.cells[head.cellIndex] ? there : missing).push(row);
    there.sort((one, other) => compare(one.cells[head.cellIndex], other.cells[head.cellIndex]) * (falling ? -1 : 1));
    body.append(...there, ...missing);
  }
}

for (const table of all("table.sortable")) {
  for (const head of all("thead th", table)) {
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(table, head));
    head.addEventListener("keydown", event => event.key === "Enter" && sort(table, head));
  }
}
for (const table of all("table.matrix")) {
  const checks = all("thead th", table).map(head => head.textContent);
  table.addEventListener("mouseover", event => {
    const cell = event.target.closest("tbody td");
    if (cell && cell.className && cell.colSpan === 1) cell.title = `${checks[cell.cellIndex]}: ${cell.className}`;
  });
}
if (find("search")) {
  for (const control of all("nav input, nav select")) control.addEventListener("input", filter);
  all(".hosts").forEach(part => { part.hidden = false; });
  filter();
}
