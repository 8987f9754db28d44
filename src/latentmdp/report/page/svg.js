// Small helpers: elements with attributes, numbers for people.

function element(name, attributes = {}, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "style") for (const [k, v] of Object.entries(value)) found.style.setProperty(k, v);
    else if (key.startsWith("on")) found.addEventListener(key.slice(2), value);
    else found.setAttribute(key, value === true ? "" : value);
  }
  found.append(...children.filter((child) => child !== null && child !== undefined));
  return found;
}

// The namespace's name is an address; asking the parser for it keeps every address out of the page.
const SVG = (() => {
  const template = document.createElement("template");
  template.innerHTML = "<svg></svg>";
  return template.content.firstChild.namespaceURI;
})();

function svg(name, attributes = {}, ...children) {
  const found = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (key === "style") for (const [k, v] of Object.entries(value)) found.style.setProperty(k, v);
    else found.setAttribute(key, value);
  }
  found.append(...children);
  return found;
}

const colour = (i) => `var(--c${i % 8})`;
const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
const dash = (i) => DASHES[Math.floor(i / 8) % 4];

const whole = (x) => Math.round(x).toLocaleString("en-US");

function short(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
    const power = Math.floor(Math.log10(size) + 1e-12);
    const front = (x / 10 ** power).toFixed(2).replace(/\.?0+$/, "");
    return `${front === "1" ? "" : front === "-1" ? "−" : `${front} × `}10${superscript(power)}`;
  }
  if (Number.isInteger(x)) return whole(x);
  return size >= 1000 ? whole(x) : Number(x.toPrecision(4)).toString();
}

const superscript = (power) => String(power).replace(/./g, (c) => ({ "-": "⁻" })[c] ?? "⁰¹²³⁴⁵⁶⁷⁸⁹"[+c]);
const fixed = (x, digits = 3) => (x === null || x === undefined || !Number.isFinite(x) ? "–" : x.toFixed(digits));

const ICONS = { first: "M3 3h2.4v10H3Z M13 3v10L5.6 8Z", back: "M12 2.5v11L3.5 8Z", forward: "M4 2.5v11L12.5 8Z", last: "M10.6 3H13v10h-2.4Z M3 3v10l7.4-5Z", pause: "M3.5 3h3.2v10H3.5Z M9.3 3h3.2v10H9.3Z" };
const icon = (name) => svg("svg", { viewBox: "0 0 16 16", width: 15, height: 15, "aria-hidden": "true", class: "icon" }, svg("path", { d: ICONS[name], fill: "currentColor" }));
