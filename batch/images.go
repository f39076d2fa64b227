package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // a format of inputs
	_ "image/png"  // a format of inputs
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Images describes the conversion of images to tensors, like torchvision's transforms Resize, CenterCrop, ToTensor and
// Normalize. The steps are applied in the order of the fields. The input of the model has the shape [N, C, H, W] or [N,
// H, W, C], and C is 3 (RGB) or 1 (grayscale).
//
// [DecodeImage] decodes files. The orientation in Exif data is ignored. Images are scaled by bilinear interpolation;
// the results have the same bits as Pillow's. When an image is reduced, the filter is widened to avoid aliasing.
type Images struct {
	// Resize is the height and the width to which images are scaled. A single number is the length of the shorter side;
	// the longer side keeps the proportion. If Resize is empty, images keep their size.
	Resize []int
	// Crop is the height and the width of the central part that is used; one number means a square. Pixels of this part
	// that are outside of the image have the value 0 in all channels. If Crop is empty, the whole image is used.
	Crop []int
	// Mean and Deviation each have one number for each channel, or one for all channels. An input of dtype float32 gets
	// the values (v - Mean) / Deviation, where v is between 0 and 1. An input of dtype uint8 gets the bytes, from 0 to
	// 255: Mean and Deviation must then be empty.
	Mean, Deviation []float64
}

// maxImagePixels is the maximum number of pixels of an image. There is a limit because a small file may describe a
// large image. The Python library Pillow warns above the same number.
const maxImagePixels = 89478485

// Check returns an error if a field has an invalid value or a wrong number of values.
func (m *Images) Check() error {
	const maxSide = 1 << 15 // in pixels
	for name, list := range map[string][]int{"resize": m.Resize, "crop": m.Crop} {
		if len(list) > 2 {
			return fmt.Errorf("%s has %d numbers: want a height and a width, or one number", name, len(list))
		}
		for _, n := range list {
			if n < 1 || n > maxSide {
				return fmt.Errorf("%s: %d pixels is out of range: want 1 to %d", name, n, maxSide)
			}
		}
	}
	for name, list := range map[string][]float64{"mean": m.Mean, "deviation": m.Deviation} {
		if len(list) == 2 || len(list) > 3 {
			return fmt.Errorf("%s has %d numbers: want 3, one for each channel, or 1 for all channels", name, len(list))
		}
		for _, x := range list {
			isZeroDivisor := name == "deviation" && x == 0
			if math.IsNaN(x) || math.IsInf(x, 0) || isZeroDivisor {
				return fmt.Errorf("%s has the invalid number %v", name, x)
			}
		}
	}
	return nil
}

// decode returns the tensor that the input in gets for an image file. It decodes, scales, crops and normalizes the
// image. For example, with Resize 256 and Crop 224, a photo of 480 x 640 pixels (height x width) is scaled to 256 x
// 341, and the tensor has the shape [1, 3, 224, 224].
func (m *Images) decode(data []byte, in imageInput) (*tensor.Tensor, error) {
	source, err := DecodeImage(data)
	if err != nil {
		return nil, err
	}
	height, width := m.scaledSize(source.Bounds().Dy(), source.Bounds().Dx())
	// scale changes the width before the height, so the largest image has maxHeight x width pixels.
	if maxHeight := max(height, source.Bounds().Dy()); width > maxImagePixels/maxHeight {
		return nil, fmt.Errorf("the image would be resized to %d x %d pixels, by way of %d x %d; the limit is %d pixels",
			height, width, maxHeight, width, maxImagePixels)
	}
	scaled := scale(source, height, width)
	if len(m.Crop) > 0 {
		height, width = m.Crop[0], m.Crop[len(m.Crop)-1]
	}
	if !in.acceptsSize(height, width) {
		return nil, fmt.Errorf("the image has %d x %d pixels (height x width) after resizing and cropping, but the model "+
			"needs %s x %s", height, width, sizeText(in.height), sizeText(in.width))
	}
	return m.cropToTensor(scaled, height, width, in)
}

// sizeText formats a height or a width of a model's input.
func sizeText(n int) string {
	if n < 0 {
		return "any"
	}
	return fmt.Sprint(n)
}

// DecodeImage decodes a PNG or JPEG file. Chroma of JPEG files is interpolated as Pillow's decoder does. The result has
// no transparency: pixels keep the colors that they have in the file. DecodeImage returns an error, before it decodes
// pixels, if there are more than 89478485 or if they would not fit into memory.
func DecodeImage(data []byte) (image.Image, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case err != nil:
		return nil, err
	case format != "png" && format != "jpeg": // the caller may have registered other formats
		return nil, fmt.Errorf("the format of the image is %s: want PNG or JPEG", format)
	case config.Width < 1 || config.Height < 1:
		return nil, errors.New("the image is empty")
	case config.Width > maxImagePixels/config.Height: // a division, because the product may overflow
		return nil, fmt.Errorf("the image has %d x %d pixels; the limit is %d pixels", config.Width, config.Height,
			maxImagePixels)
	}
	const bytesPerPixel = 16 // of the decoded image and its copies, approximately
	if limit, ok := machine.Fits(bytesPerPixel * config.Width * config.Height); !ok {
		return nil, fmt.Errorf("the image has %d x %d pixels and does not fit into memory: %v", config.Width, config.Height,
			limit)
	}
	source, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if photo, ok := source.(*image.YCbCr); ok {
		return toRGBLikeLibjpeg(photo), nil
	}
	return opaque(source), nil
}

// opaque returns an image without transparency. Pixels keep the colors that they have in the file; the method At of
// image.Image would return colors multiplied by alpha.
func opaque(source image.Image) image.Image {
	if known, ok := source.(interface{ Opaque() bool }); ok && known.Opaque() {
		return source
	}
	bounds := source.Bounds()
	out := image.NewRGBA(bounds)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			pixel := color.NRGBAModel.Convert(source.At(x, y)).(color.NRGBA)
			out.SetRGBA(x, y, color.RGBA{pixel.R, pixel.G, pixel.B, 255})
		}
	}
	return out
}

// scaledSize returns the size of an image after Resize.
func (m *Images) scaledSize(height, width int) (scaledHeight, scaledWidth int) {
	switch len(m.Resize) {
	case 1: // torchvision truncates the longer side
		shorter := m.Resize[0]
		if height < width {
			return shorter, int(float64(shorter) * float64(width) / float64(height))
		}
		return int(float64(shorter) * float64(height) / float64(width)), shorter
	case 2: // height and width
		return m.Resize[0], m.Resize[1]
	}
	return height, width // without Resize
}

// scale scales an image to the given size.
func scale(source image.Image, height, width int) *image.RGBA {
	bounds := source.Bounds()
	pixels := image.NewRGBA(image.Rect(0, 0, bounds.Dx(), bounds.Dy()))
	draw.Draw(pixels, pixels.Rect, source, bounds.Min, draw.Src)
	return resample(pixels, height, width)
}

// cropToTensor crops an image to the given size, and converts it to a normalized tensor for the input in.
func (m *Images) cropToTensor(source *image.RGBA, height, width int, in imageInput) (t *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	if !in.isFloat && len(m.Mean)+len(m.Deviation) > 0 {
		return nil, fmt.Errorf("input %q has dtype uint8, so Mean and Deviation cannot be applied", in.value.Name)
	}
	shape := []int{1, in.channels, height, width}
	channelStride, pixelStride := height*width, 1
	if in.channelsLast {
		shape = []int{1, height, width, in.channels}
		channelStride, pixelStride = 1, in.channels
	}
	t = tensor.Empty(tensor.New(in.value.Meta.DType, shape...))
	valueOf := m.normalizedValues(in.channels)
	data := t.Storage().Bytes()
	firstRow, firstColumn := cropStart(source.Rect.Dy(), height), cropStart(source.Rect.Dx(), width)
	for y := range height {
		for x := range width {
			var pixel color.RGBA // 0 outside of the image
			if position := image.Pt(x+firstColumn, y+firstRow); position.In(source.Rect) {
				pixel = source.RGBAAt(position.X, position.Y)
			}
			rgb := [3]byte{pixel.R, pixel.G, pixel.B}
			if in.channels == 1 {
				rgb[0] = gray(pixel)
			}
			for channel := range in.channels {
				index := channel*channelStride + (y*width+x)*pixelStride
				if in.isFloat {
					binary.NativeEndian.PutUint32(data[4*index:], math.Float32bits(valueOf[channel][rgb[channel]]))
				} else {
					data[index] = rgb[channel]
				}
			}
		}
	}
	return t, nil
}

// cropStart returns the first row (or column) of a central crop; it is negative if the crop exceeds the image. As in
// torchvision, half of an odd difference is rounded to even, or towards 0 if the crop exceeds the image.
func cropStart(size, cropped int) int {
	if cropped > size {
		return -((cropped - size) / 2)
	}
	return int(math.RoundToEven(float64(size-cropped) / 2))
}

// gray returns the luma of ITU-R BT.601, 0.299 R + 0.587 G + 0.114 B, rounded. As in Pillow, the weights are rounded to
// units of 2^-16.
func gray(c color.RGBA) byte {
	return byte((uint32(c.R)*19595 + uint32(c.G)*38470 + uint32(c.B)*7471 + 1<<15) >> 16)
}

// normalizedValues returns, for each channel, a table from the 256 possible bytes to normalized values.
func (m *Images) normalizedValues(channels int) [][256]float32 {
	// A list has a number for each channel, one for all channels, or none.
	numberFor := func(list []float64, channel int, defaultNumber float32) float32 {
		if len(list) == 0 {
			return defaultNumber
		}
		return float32(list[min(channel, len(list)-1)])
	}
	values := make([][256]float32, channels)
	for channel := range values {
		mean, deviation := numberFor(m.Mean, channel, 0), numberFor(m.Deviation, channel, 1)
		for byteValue := range 256 {
			values[channel][byteValue] = (float32(byteValue)/255 - mean) / deviation
		}
	}
	return values
}

// imageInput describes the input of a model that takes images.
type imageInput struct {
	value         *graph.Value
	height, width int // -1 if the model accepts any size
	channels      int
	channelsLast  bool
	isFloat       bool // whether the dtype is float32; otherwise it is uint8
}

// acceptsSize reports whether the model accepts images of this size.
func (in *imageInput) acceptsSize(height, width int) bool {
	return (in.height < 0 || in.height == height) && (in.width < 0 || in.width == width)
}

// imageInputOf describes the input of a model. It returns an error if the input cannot be images.
func imageInputOf(g *graph.Graph) (imageInput, error) {
	inputs := requiredInputs(g)
	if len(inputs) != 1 {
		return imageInput{}, fmt.Errorf("the model has %d inputs, but images need a model with one input", len(inputs))
	}
	v := inputs[0]
	shape := declaredShape(v)
	in := imageInput{value: v, isFloat: v.Meta.DType == tensor.Float32}
	if !in.isFloat && v.Meta.DType != tensor.Uint8 {
		return in, fmt.Errorf("input %q has dtype %v, but images need float32 or uint8", v.Name, v.Meta.DType)
	}
	isChannelCount := func(n int) bool { return n == 1 || n == 3 }
	switch {
	case len(shape) != 4 || shape[0] > 1: // a decoded image has the batch size 1
		return in, fmt.Errorf("input %q has the shape %v, but images need [N, C, H, W] or [N, H, W, C]", v.Name, shape)
	case isChannelCount(shape[1]): // channels first, even if shape[3] is 1 or 3 too
		in.channels, in.height, in.width = shape[1], shape[2], shape[3]
	case isChannelCount(shape[3]):
		in.channels, in.height, in.width, in.channelsLast = shape[3], shape[1], shape[2], true
	case shape[1] < 0: // a symbol: assume channels first, and RGB
		in.channels, in.height, in.width = 3, shape[2], shape[3]
	default:
		return in, fmt.Errorf("input %q has the shape %v, but images have 1 or 3 channels", v.Name, shape)
	}
	return in, nil
}

// declaredShape returns the declared sizes of an input, -1 for a symbol.
func declaredShape(v *graph.Value) []int {
	if v.Dims == nil {
		return v.Meta.Shape
	}
	shape := make([]int, len(v.Dims))
	for i, dim := range v.Dims {
		if shape[i] = dim.Size; !dim.IsNumber() {
			shape[i] = -1
		}
	}
	return shape
}
