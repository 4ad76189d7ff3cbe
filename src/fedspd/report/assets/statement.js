"use strict";
// What an attacker may believe, for the chance before that the reader sets.
(function () {
  const figure = document.querySelector("[data-factor]");
  if (!figure) return;
  const factor = Number(figure.dataset.factor), delta = Number(figure.dataset.delta);
  const belief = Number(figure.dataset.belief);
  const slider = document.getElementById("prior"), told = document.getElementById("told");
  const dots = figure.querySelectorAll("circle");
  const percent = (share, round) => round(share * 1e4) / 100 + " %";
  function update() {
    const prior = slider.value / 100, odds = prior / (1 - prior);
    const most = (odds * belief) / (1 + odds * belief), least = odds / belief / (1 + odds / belief);
    const corner = (1 - delta) / (1 + factor);
    const right = 1 - Math.min(corner, prior * (1 - delta), (1 - prior) * (1 - delta));
    told.textContent = "A chance of " + percent(prior, Math.round) + " before: believed after to " +
      percent(least, Math.floor) + " at least and " + percent(most, Math.ceil) + " at most; guesses right in " +
      percent(right, Math.ceil) + " at most.";
    [most, least].forEach(function (share, place) {
      dots[place].setAttribute("cx", 40 + 240 * prior);
      dots[place].setAttribute("cy", 190 - 180 * share);
    });
  }
  slider.addEventListener("input", update);
  update();
})();
