// Tables that sort by a click on a heading, and fields that hide what does not contain their words.

const wordsOf = (row, i) => row.cells[i].textContent.trim();

// "3.2 × 10⁹", "1,000", "0.5 to 0.7": by their first number; anything else as text.
function valueOf(text) {
  const raised = { "⁻": "-", "⁰": "0", "¹": "1", "²": "2", "³": "3", "⁴": "4", "⁵": "5", "⁶": "6", "⁷": "7", "⁸": "8", "⁹": "9" };
  const plain = text.replace(/,/g, "").replace(/−/g, "-");
  const power = plain.match(/^(?:(-?[\d.]+) × )?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/);
  if (power) return Number(power[1] ?? 1) * 10 ** Number([...power[2]].map((c) => raised[c]).join(""));
  const first = plain.match(/^-?\d+(?:\.\d+)?(?:e-?\d+)?/);
  return first ? Number(first[0]) : null;
}

function compareRows(i, down) {
  return (a, b) => {
    const [x, y] = [valueOf(wordsOf(a, i)), valueOf(wordsOf(b, i))];
    const order = x !== null && y !== null ? x - y : wordsOf(a, i).localeCompare(wordsOf(b, i), "en", { numeric: true });
    return down ? -order : order;
  };
}

for (const table of document.querySelectorAll(".sortable table")) {
  [...table.tHead.rows[0].cells].forEach((cell, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compareRows(i, down)));
    });
  });
}

for (const field of document.querySelectorAll("input[data-hides]")) {
  const target = document.getElementById(field.dataset.hides);
  const items = target.querySelector("tbody") ? [...target.querySelector("tbody").rows] : [...target.children];
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const item of items) {
      const text = (item.dataset.filter ?? item.textContent).toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
    }
  });
}
