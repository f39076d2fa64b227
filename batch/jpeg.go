package batch

import "image"

// This file converts decoded JPEG images to RGB. An [image.YCbCr] has three planes. The plane Y has the luma
// (brightness) of each pixel. The planes Cb and Cr have chroma (color), often at a lower resolution. For example, in
// the format 4:2:0 a sample of Cb covers a block of 2 x 2 pixels. An upsampler enlarges the chroma planes to the size
// of the image. A linear formula then converts each pixel to RGB.

// toRGBLikeLibjpeg returns an image as RGB. The bytes are equal to the results of libjpeg-turbo's default decoder,
// which Pillow and torchvision use. Like libjpeg-turbo, it interpolates chroma (jdsample.c: fancy upsampling), and
// rounds RGB to nearest (jdcolor.c). The methods of image.YCbCr repeat chroma instead, and round differently.
func toRGBLikeLibjpeg(source *image.YCbCr) *image.RGBA {
	width, height := source.Rect.Dx(), source.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	upsampler := newUpsampler(source)
	// Interpolation stores pairs of pixels: the rows have space for one more pixel.
	cbRow, crRow := make([]uint8, width+1), make([]uint8, width+1)
	for y := range height {
		upsampler.setRow(cbRow, source.Cb, y)
		upsampler.setRow(crRow, source.Cr, y)
		lumaRow := source.Y[y*source.YStride:]
		pixels := out.Pix[y*out.Stride:]
		for x := range width {
			luma, cb, cr := int32(lumaRow[x]), int32(cbRow[x])-128, int32(crRow[x])-128
			// The factors of JFIF, multiplied by 2^16: 1.402, -0.344136, -0.714136 and 1.772.
			const half = 1 << 15
			pixel := pixels[4*x : 4*x+4]
			pixel[0] = clampToByte(luma + (91881*cr+half)>>16)
			pixel[1] = clampToByte(luma + (-22554*cb-46802*cr+half)>>16)
			pixel[2] = clampToByte(luma + (116130*cb+half)>>16)
			pixel[3] = 255
		}
	}
	return out
}

func clampToByte(x int32) uint8 { return uint8(min(max(x, 0), 255)) }

// upsampler enlarges chroma planes to the size of the image, by interpolation or by repetition of samples. For example,
// if a sample c[i] covers the pixels 2i and 2i+1 of a row, the interpolated values are
//
//	pixel 2i:   3/4 c[i] + 1/4 c[i-1]
//	pixel 2i+1: 3/4 c[i] + 1/4 c[i+1]
//
// At the border, c[i] replaces the missing neighbor. If a row of samples covers two rows of pixels, rows are
// interpolated by the same formula.
type upsampler struct {
	width, height                int     // size of a chroma plane in samples
	stride                       int     // distance between rows of a chroma plane in bytes
	xFactor, yFactor             int     // a sample covers xFactor x yFactor pixels
	interpolatesX, interpolatesY bool    // otherwise samples are repeated in x or y
	sums                         []int32 // one row, after the interpolation in y: see setSums
}

// newUpsampler returns the upsampler of an image. Like libjpeg-turbo, it interpolates a dimension only if its factor is
// 2. Planes of one or two columns are not interpolated in the formats 4:2:2 and 4:2:0.
func newUpsampler(source *image.YCbCr) *upsampler {
	u := &upsampler{stride: source.CStride, xFactor: 1, yFactor: 1}
	switch source.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		u.xFactor = 2
	case image.YCbCrSubsampleRatio420:
		u.xFactor, u.yFactor = 2, 2
	case image.YCbCrSubsampleRatio440:
		u.yFactor = 2
	case image.YCbCrSubsampleRatio411:
		u.xFactor = 4
	case image.YCbCrSubsampleRatio410:
		u.xFactor, u.yFactor = 4, 2
	}
	u.width = (source.Rect.Dx() + u.xFactor - 1) / u.xFactor
	u.height = (source.Rect.Dy() + u.yFactor - 1) / u.yFactor
	u.interpolatesX = u.xFactor == 2 && u.width > 2
	u.interpolatesY = u.yFactor == 2 && (u.interpolatesX || u.xFactor == 1)
	u.sums = make([]int32, u.width)
	return u
}

// setRow stores row y of an enlarged plane in out. out has the width of the image plus 1.
func (u *upsampler) setRow(out, plane []uint8, y int) {
	row := y / u.yFactor // the row of samples that covers row y of pixels
	samples := plane[row*u.stride:][:u.width]
	if !u.interpolatesX && !u.interpolatesY {
		for x := range out[:len(out)-1] {
			out[x] = samples[x/u.xFactor]
		}
		return
	}
	parity := y % u.yFactor
	neighborRow := row - 1 // the row of samples above or below; not used without interpolation in y
	if parity == 1 {
		neighborRow = row + 1
	}
	neighbors := plane[min(max(neighborRow, 0), u.height-1)*u.stride:][:u.width]
	u.setSums(samples, neighbors)
	u.storeSums(out, int32(parity))
}

// setSums sets u.sums to the samples, interpolated in y if u.interpolatesY is set. The interpolated values are
// multiplied by 4. neighbors is the row of samples above or below.
func (u *upsampler) setSums(samples, neighbors []uint8) {
	if !u.interpolatesY {
		for i, sample := range samples {
			u.sums[i] = int32(sample)
		}
		return
	}
	for i, sample := range samples {
		u.sums[i] = 3*int32(sample) + int32(neighbors[i])
	}
}

// storeSums stores u.sums in out, interpolated in x if u.interpolatesX is set. An interpolation in one dimension
// multiplies by 4, in two dimensions by 16. The results are divided by this factor. Like libjpeg-turbo, storeSums
// alternates between two rounding terms, so that rounding does not shift the mean. The terms alternate from pixel to
// pixel or, without interpolation in x, from row to row: rowParity is 0 or 1 alternately.
func (u *upsampler) storeSums(out []uint8, rowParity int32) {
	last := u.width - 1
	for i, sum := range u.sums {
		switch {
		case !u.interpolatesX: // only in y: the rounding terms are 1 and 2
			out[i] = uint8((sum + 1 + rowParity) >> 2)
		case u.interpolatesY: // in x and y
			out[2*i] = uint8((3*sum + u.sums[max(i-1, 0)] + 8) >> 4)
			out[2*i+1] = uint8((3*sum + u.sums[min(i+1, last)] + 7) >> 4)
		default: // only in x
			out[2*i] = uint8((3*sum + u.sums[max(i-1, 0)] + 1) >> 2)
			out[2*i+1] = uint8((3*sum + u.sums[min(i+1, last)] + 2) >> 2)
		}
	}
}
