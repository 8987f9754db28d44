// The page's own random numbers: sfc32 (Chris Doty-Humphrey's PractRand), seeded by splitmix32.
// A seed gives the same episode in every browser. Draws: one for the first state, one per step, so
// that two policies with one seed meet the same luck. report/replay.py is the same in Python.

function splitmix32(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x9e3779b9) >>> 0;
    let t = a ^ (a >>> 16);
    t = Math.imul(t, 0x21f0aaad);
    t ^= t >>> 15;
    t = Math.imul(t, 0x735a2d97);
    return (t ^ (t >>> 15)) >>> 0;
  };
}

function uniforms(seed) {
  const mix = splitmix32(seed);
  let [a, b, c, d] = [mix(), mix(), mix(), 1];
  const draw = () => {
    const t = (((a + b) >>> 0) + d) >>> 0;
    d = (d + 1) >>> 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) >>> 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) >>> 0;
    return t / 4294967296;
  };
  for (let i = 0; i < 12; i++) draw();
  return draw;
}
