"use strict";
for (const chart of document.querySelectorAll(".chart[data-points]")) {
  const points = JSON.parse(chart.dataset.points);
  const plot = chart.querySelector(".plot");
  const dot = plot.appendChild(document.createElement("span"));
  const said = chart.querySelector("figcaption span");
  const summary = said.textContent;
  let at = -1;
  dot.className = "pointer";
  const show = (index) => {
    at = Math.max(0, Math.min(points.length - 1, index));
    const [x, y, text] = points[at];
    dot.style.left = x + "%";
    dot.style.top = y + "%";
    chart.classList.add("pointed");
    said.textContent = text;
  };
  const hide = () => {
    at = -1;
    chart.classList.remove("pointed");
    said.textContent = summary;
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const x = (100 * (event.clientX - box.left)) / box.width;
    let best = 0;
    points.forEach((point, n) => {
      if (Math.abs(point[0] - x) < Math.abs(points[best][0] - x)) best = n;
    });
    show(best);
  });
  plot.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", (event) => {
    const stride = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowRight") show(at + stride);
    else if (event.key === "ArrowLeft") show(at < 0 ? points.length - 1 : at - stride);
    else if (event.key === "Home") show(0);
    else if (event.key === "End") show(points.length - 1);
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
  });
}
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
