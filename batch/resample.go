package batch

import (
	"image"
	"math"
)

// resample scales an opaque image by bilinear interpolation, with bit-identical results to Pillow's Image.resize
// (Resample.c). It scales rows, rounds to bytes, and then scales columns. When an axis is reduced, the filter covers
// all source pixels of a result pixel, which avoids aliasing.
func resample(source *image.RGBA, height, width int) *image.RGBA {
	if source.Rect.Dx() != width {
		source = resampleRows(source, width)
	}
	if source.Rect.Dy() != height {
		source = resampleColumns(source, height)
	}
	return source
}

// weightBits is the number of fraction bits of a weight. Pillow's number leaves 8 bits for the value of a pixel and 2
// for overflow.
const weightBits = 32 - 8 - 2

// A window holds the weights of consecutive source pixels for one result pixel. Their sum is about 1 << weightBits.
type window struct {
	first   int // index of the first source pixel
	weights []int32
}

// bilinearWindows returns the windows of all result pixels of an axis. Pixel k covers the interval from k to k+1, so
// its center is at k + 0.5. Conversions such as float64(x*y) prevent fused multiply-adds.
func bilinearWindows(sourceSize, size int) []window {
	scale := float64(sourceSize) / float64(size)
	radius := max(scale, 1) // half of the width of the triangular filter, in source pixels
	windows := make([]window, size)
	for i := range windows {
		center := float64((float64(i) + 0.5) * scale) // center of result pixel i, in source pixels
		first := max(int(center-radius+0.5), 0)
		end := min(int(center+radius+0.5), sourceSize)
		weights, sum := make([]float64, end-first), 0.0
		for k := range weights {
			distance := float64((float64(k+first) - center + 0.5) * (1 / radius))
			weights[k] = max(1-math.Abs(distance), 0)
			sum += weights[k]
		}
		windows[i] = window{first, make([]int32, len(weights))}
		for k, weight := range weights {
			windows[i].weights[k] = int32(0.5 + float64(weight/sum*(1<<weightBits)))
		}
	}
	return windows
}

// resampleRows scales each row of an image to the given width.
func resampleRows(source *image.RGBA, width int) *image.RGBA {
	height := source.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	windows := bilinearWindows(source.Rect.Dx(), width)
	for y := range height {
		row := source.Pix[y*source.Stride:]
		for x, w := range windows {
			writePixel(out.Pix[y*out.Stride+4*x:], w.weights, row[4*w.first:], 4)
		}
	}
	return out
}

// resampleColumns scales each column of an image to the given height.
func resampleColumns(source *image.RGBA, height int) *image.RGBA {
	width := source.Rect.Dx()
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for y, w := range bilinearWindows(source.Rect.Dy(), height) {
		for x := range width {
			writePixel(out.Pix[y*out.Stride+4*x:], w.weights, source.Pix[w.first*source.Stride+4*x:], source.Stride)
		}
	}
	return out
}

// writePixel writes the weighted sum of source pixels to the first pixel of out, which becomes opaque. stride is the
// distance of the source pixels in bytes.
func writePixel(out []byte, weights []int32, source []byte, stride int) {
	const half = 1 << (weightBits - 1) // half of a unit of the result, for rounding
	red, green, blue := int32(half), int32(half), int32(half)
	for k, weight := range weights {
		pixel := source[k*stride:][:3]
		red += int32(pixel[0]) * weight
		green += int32(pixel[1]) * weight
		blue += int32(pixel[2]) * weight
	}
	out[0], out[1], out[2], out[3] = toByte(red), toByte(green), toByte(blue), 255
}

// toByte removes the fraction bits of a weighted sum. The sum of rounded weights may exceed 1.
func toByte(sum int32) byte { return byte(min(sum>>weightBits, 255)) }
