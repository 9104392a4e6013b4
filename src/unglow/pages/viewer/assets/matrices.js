// Maps between images as 3 x 3 matrices.

// Where a matrix leads from a place {x, y, zoom, turn}: the view keeps its size and direction.
export function mapped(m, { x, y, zoom, turn }) {
  const w = m[2][0] * x + m[2][1] * y + m[2][2];
  const scale = Math.sqrt(Math.abs(m[0][0] * m[1][1] - m[0][1] * m[1][0]));
  const angle = (Math.atan2(m[1][0] - m[0][1], m[0][0] + m[1][1]) * 180) / Math.PI; // its negative leads back, with shear as well
  return {
    x: (m[0][0] * x + m[0][1] * y + m[0][2]) / w, y: (m[1][0] * x + m[1][1] * y + m[1][2]) / w,
    zoom: zoom ? zoom / scale : zoom, turn: (turn || 0) - angle,
  };
}

export function inverse([[a, b, c], [d, e, f], [g, h, i]]) {
  const det = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
  return [
    [e * i - f * h, c * h - b * i, b * f - c * e],
    [f * g - d * i, a * i - c * g, c * d - a * f],
    [d * h - e * g, b * g - a * h, a * e - b * d],
  ].map((row) => row.map((value) => value / det));
}
