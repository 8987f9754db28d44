// Set everything up once the page is there.

const report = JSON.parse(document.getElementById("report-data").textContent);
const place = (id, draw) => {
  const host = document.getElementById(id);
  if (host) draw(host);
};

place("chart-regret", (host) => regretChart(host, report));
place("chart-value", (host) => valueChart(host, report));
place("chart-updates", (host) => updatesChart(host, report));
report.plans.forEach((plan, i) => place(`chart-plan-${i}`, (host) => planChart(host, plan, report)));
place("explorer", (host) => {
  if (report.sources.length) new Explorer(host, report);
});

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy)); // no permission: select it
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
}

for (const button of document.querySelectorAll("button[data-model]")) {
  button.addEventListener("click", () => {
    const text = modelFile(readModel(report.models[+button.dataset.model]));
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    element("a", { href: address, download: button.dataset.file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
}
