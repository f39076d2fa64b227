package batch

import "image"

// toRGBLikeLibjpeg returns an image as RGB, with the values of libjpeg-turbo's default decoder, and so of Pillow and
// torchvision. Subsampled chroma is interpolated with the weights 3/4 and 1/4 (jdsample.c: fancy upsampling). The
// conversion to RGB rounds to nearest (jdcolor.c). image.YCbCr would repeat chroma, and round differently.
func toRGBLikeLibjpeg(source *image.YCbCr) *image.RGBA {
	width, height := source.Rect.Dx(), source.Rect.Dy()
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	upsampler := newUpsampler(source)
	cbRow, crRow := make([]uint8, width+1), make([]uint8, width+1)
	for y := range height {
		upsampler.setRow(cbRow, source.Cb, y)
		upsampler.setRow(crRow, source.Cr, y)
		lumaRow := source.Y[y*source.YStride:]
		pixels := out.Pix[y*out.Stride:]
		for x := range width {
			luma, cb, cr := int32(lumaRow[x]), int32(cbRow[x])-128, int32(crRow[x])-128
			// The weights 1.402, -0.344136, -0.714136 and 1.772 of JFIF, in units of 2^-16.
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

// upsampler computes rows of chroma in the size of the image. For example, with a factor of 2 in x and chroma samples
// c[0], c[1], ..., the pixels 2i and 2i+1 are on both sides of the center of c[i], and get
//
//	2i:   3/4 c[i] + 1/4 c[i-1]
//	2i+1: 3/4 c[i] + 1/4 c[i+1]
//
// The same holds for rows with a factor of 2 in y: 3/4 of the near row, whose samples cover the pixels, and 1/4 of the
// far row, the neighbour of the near row that is closest to the pixels.
type upsampler struct {
	width, height    int // of the chroma planes
	stride           int
	xFactor, yFactor int     // pixels for each chroma sample
	smoothX, smoothY bool    // whether samples are interpolated in x and in y; otherwise they are repeated
	sums             []int32 // near row or, with smoothY, 3 near + far: set by setSums, read by storeSums
}

// newUpsampler returns the upsampler of an image. As in libjpeg-turbo, a dimension is interpolated only if it is
// halved. With fewer than three samples in x, 4:2:2 is repeated in x, and 4:2:0 in both dimensions.
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
	u.smoothX = u.xFactor == 2 && u.width > 2
	u.smoothY = u.yFactor == 2 && (u.smoothX || u.xFactor == 1)
	u.sums = make([]int32, u.width)
	return u
}

// setRow stores the chroma of row y of the image, read from the given plane, in out. out has one element more than the
// image is wide, because interpolation stores pairs of pixels.
func (u *upsampler) setRow(out, plane []uint8, y int) {
	nearIndex := y / u.yFactor
	nearRow := plane[nearIndex*u.stride:][:u.width]
	if !u.smoothX && !u.smoothY {
		for x := range out[:len(out)-1] {
			out[x] = nearRow[x/u.xFactor]
		}
		return
	}
	parity := y % u.yFactor // 1 if the far row is below the near row, 0 if it is above
	farRow := plane[min(max(nearIndex-1+2*parity, 0), u.height-1)*u.stride:][:u.width]
	u.setSums(nearRow, farRow)
	u.storeSums(out, int32(parity))
}

// setSums sets u.sums. It reads farRow only with smoothY.
func (u *upsampler) setSums(nearRow, farRow []uint8) {
	if !u.smoothY {
		for i, near := range nearRow {
			u.sums[i] = int32(near)
		}
		return
	}
	for i, near := range nearRow {
		u.sums[i] = 3*int32(near) + int32(farRow[i])
	}
}

// storeSums divides u.sums and stores them in out, interpolated in x if u.smoothX is set. Each interpolation, in x and
// in y, multiplies the values by 4, so the divisor is 4 or 16. As in libjpeg-turbo, the rounding term alternates
// between two values from pixel to pixel (without smoothX, from row to row), so that rounding does not shift the mean.
// rowParity is the row of the image modulo yFactor.
func (u *upsampler) storeSums(out []uint8, rowParity int32) {
	last := u.width - 1
	for i, sum := range u.sums {
		switch {
		case !u.smoothX:
			out[i] = uint8((sum + 1 + rowParity) >> 2)
		case u.smoothY:
			out[2*i] = uint8((3*sum + u.sums[max(i-1, 0)] + 8) >> 4)
			out[2*i+1] = uint8((3*sum + u.sums[min(i+1, last)] + 7) >> 4)
		default:
			out[2*i] = uint8((3*sum + u.sums[max(i-1, 0)] + 1) >> 2)
			out[2*i+1] = uint8((3*sum + u.sums[min(i+1, last)] + 2) >> 2)
		}
	}
}
