// Gaussian blur of values, where some may be missing.

// Weights from the middle to four standard deviations.
export function taps(sigma) {
  const reach = Math.ceil(4 * sigma);
  const weights = Float64Array.from({ length: 2 * reach + 1 }, (_, n) => Math.exp(-0.5 * ((n - reach) / sigma) ** 2));
  const sum = weights.reduce((a, b) => a + b, 0);
  return weights.map((weight) => weight / sum);
}

// Blur `width` x `height` values and cut `reach` off each side; a px without data stays without.
export function blurred(values, width, height, weights) {
  const reach = (weights.length - 1) / 2;
  const inner = width - 2 * reach, rows = height - 2 * reach;
  const known = values.map((value) => (value === value ? 1 : 0));
  const filled = values.map((value) => (value === value ? value : 0));
  const [sums, shares] = [filled, known].map((image) => down(along(image, width, height, weights, inner), inner, rows, weights));
  const out = new Float32Array(inner * rows);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < inner; x++) {
      const at = y * inner + x;
      out[at] = known[(y + reach) * width + x + reach] ? sums[at] / shares[at] : NaN;
    }
  }
  return out;
}

function along(image, width, height, weights, inner) {
  const out = new Float32Array(inner * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < inner; x++) {
      let sum = 0;
      for (let n = 0; n < weights.length; n++) sum += weights[n] * image[y * width + x + n];
      out[y * inner + x] = sum;
    }
  }
  return out;
}

function down(image, width, rows, weights) {
  const out = new Float32Array(width * rows);
  for (let y = 0; y < rows; y++) {
    for (let n = 0; n < weights.length; n++) {
      const from = (y + n) * width, weight = weights[n];
      for (let x = 0; x < width; x++) out[y * width + x] += weight * image[from + x];
    }
  }
  return out;
}
