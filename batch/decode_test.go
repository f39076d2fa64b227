package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/tensor"
)

// decoderOf returns a decoder for a graph with inputs, given as JSON.
func decoderOf(t testing.TB, inputs string) *decoder {
	t.Helper()
	name := strings.SplitN(inputs, `"`, 5)[3]
	g, err := graphfile.Parse(strings.NewReader(`{"version": 1, "symbols": {"N": {}, "H": {}, "L": {}}, "inputs": [`+inputs+
		`], "nodes": [{"name": "result", "op": "clone", "inputs": ["`+name+`"]}], "outputs": ["result"]}`), kernels.Lookup,
		graphfile.Options{})
	require.NoError(t, err)
	return &decoder{graph: g}
}

const (
	twoInputs = `{"name": "x", "dtype": "float32", "shape": ["N", 2]}, {"name": "n", "dtype": "int8", "shape": ["N"]}`
	oneInput  = `{"name": "x", "dtype": "float32", "shape": ["N", 2]}`
	lists     = `{"name": "x", "dtype": "int64", "shape": ["N", "L"]}`
	photos    = `{"name": "x", "dtype": "float32", "shape": ["N", 3, 2, 2]}`
)

func TestTextFormats(t *testing.T) {
	for _, c := range []struct{ inputs, name, text, want string }{
		{oneInput, "a.csv", "1,2\n3,-4e1\n", "x [2 2] [1 2 3 -40]"},
		{oneInput, "a.csv", "\ufeffheight,width\r\n1,2\r\n", "x [1 2] [1 2]"},
		{oneInput, "a.CSV", "x.1,other,x.0\n1,text,2\n", "x [1 2] [2 1]"},
		{twoInputs, "a.csv", "1,2,3\n4,5,6\n", "n [2] [3 6] x [2 2] [1 2 4 5]"},
		{twoInputs, "a.csv", "n,x.0,x.1\n1,2,3\n", "n [1] [1] x [1 2] [2 3]"},
		{oneInput, "a.jsonl", "[1, 2]\n\n{\"x\": [3, 4], \"id\": {\"a\": []}}\n", "x [2 2] [1 2 3 4]"},
		{twoInputs, "a.ndjson", `{"n": 7, "x": [3, 4]}`, "n [1] [7] x [1 2] [3 4]"},
		{lists, "a.jsonl", "[1, 2, 3]\n[4, 5, 6]", "x [2 3] [1 2 3 4 5 6]"},

		{oneInput, "a.csv", "1,z\n", "line 1, field 2"},
		{oneInput, "a.csv", "1,\n", "line 1, field 2: the field is empty"},
		{oneInput, "a.csv", "1\n", "line 1 has 1 fields, but a row of the model has 2 elements"},
		{oneInput, "a.csv", "1,2\n1,2,3\n", "wrong number of fields"},
		{oneInput, "a.csv", "x.0,y\n1,2\n", `line 1 has no name for element 1 of input "x"`},
		{oneInput, "a.csv", "a,b\n", "the file has no rows"},
		{oneInput, "a.csv", "1,1e60\n", "within the range"},
		{twoInputs, "a.csv", "1,2,300\n", "integer of 8 bits"},
		{lists, "a.csv", "1,2,3\n", "the shape of a row is [-1], but CSV files need a model with known sizes"},
		{oneInput, "a.jsonl", "[1, 2]\n[3]", "line 2: input \"x\": the row has the shape [1], want [2]"},
		{oneInput, "a.jsonl", "[1, [2]]", "element 1 has the shape [1], but the elements before it have the shape []"},
		{oneInput, "a.jsonl", "[[[[1]]]]", "nested too deeply"},
		{oneInput, "a.jsonl", strings.Repeat("[", 1<<20), "nested too deeply"},
		{oneInput, "a.jsonl", "[1, null]", `the JSON value "null" is not a number`},
		{oneInput, "a.jsonl", `["1", "2"]`, `the JSON value "1" is not a number`},
		{oneInput, "a.jsonl", "[1, 2] 3", "more than one value"},
		{oneInput, "a.jsonl", "[1, ", "line 1"},
		{oneInput, "a.jsonl", `{"x": [1, 2], "x": [1, 2]}`, "duplicate"},
		{oneInput, "a.jsonl", "\n", "the file has no rows"},
		{twoInputs, "a.jsonl", "[1, 2]", "line 1: the line must be an object, because the model has 2 inputs"},
		{twoInputs, "a.jsonl", `{"x": [1, 2]}`, `line 1: the line has no value for input "n"`},
		{lists, "a.jsonl", "[1, 2]\n[3]", "the row has the shape [1], want [2]"},
		{oneInput, "a.txt", "", `the extension ".txt" is not supported`},
		{twoInputs, "a.npy", "", "the model has 2 inputs, but an .npy file has only one array"},
		{oneInput, "a.npy", "", "truncated header"},
		{oneInput, "a.npz", "", "empty"},
		{oneInput, "a.png", "", "images need"},
		{photos, "a.png", "\x89PNG\r\n\x1a\n", "unexpected EOF"},
	} {
		in, err := decoderOf(t, c.inputs).decode(c.name, []byte(c.text))
		if err != nil {
			assert.ErrorContains(t, err, c.want, "%s %.40q", c.name, c.text)
			continue
		}
		assert.Equal(t, c.want, textOf(in), "%s %.40q", c.name, c.text)
	}
}

// textOf returns the names, shapes and elements of tensors.
func textOf(in map[string]*tensor.Tensor) string {
	var parts []string
	for _, e := range npz.EntriesOf(in) {
		var elements []string
		for i := range e.Tensor.Numel() {
			flat := tensor.Must(e.Tensor.View(tensor.New(e.Tensor.DType, e.Tensor.Numel())))
			elements = append(elements, flat.At(i).String())
		}
		parts = append(parts, e.Name, strings.ReplaceAll(tensor.ListString(e.Tensor.Shape), ",", ""), "["+
			strings.Join(elements, " ")+"]")
	}
	return strings.Join(parts, " ")
}

// TestStrings: elements of inputs of strings are codes.
func TestStrings(t *testing.T) {
	d := decoderOf(t, `{"name": "s", "dtype": "int64", "shape": ["N", 1]}`)
	d.graph.Labels = map[string]graph.Labels{"s": {Texts: tensor.NewTexts([]string{"a", "b"})}}
	unknown := tensor.NewTexts(nil).Code("c")
	for name, text := range map[string]string{"a.csv": "b\nc\na\n", "a.jsonl": "[\"b\"]\n[\"c\"]\n[\"a\"]\n"} {
		in, err := d.decode(name, []byte(text))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("s [3 1] [1 %d 0]", unknown), textOf(in))
	}
	var file bytes.Buffer
	require.NoError(t, npz.WriteStrings(&file, []string{"b", "c"}, []int{2, 1}))
	in, err := d.decode("a.npy", file.Bytes())
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprintf("s [2 1] [1 %d]", unknown), textOf(in))
}

func TestArrays(t *testing.T) {
	d := decoderOf(t, oneInput)
	x := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	encode := func(array *tensor.Tensor) []byte {
		var file bytes.Buffer
		require.NoError(t, npz.WriteNPY(&file, array))
		return file.Bytes()
	}
	in, err := d.decode("a.npy", encode(x))
	require.NoError(t, err)
	assert.Equal(t, "x [2 2] [1 2 3 4]", textOf(in))
	_, err = d.decode("a.npy", encode(tensor.Zeros(tensor.Float64, 2, 2)))
	assert.ErrorContains(t, err, "the array has dtype float64, want float32")
	var archive bytes.Buffer
	require.NoError(t, npz.WriteNPZ(&archive, []npz.Entry{{Name: "y", Tensor: x}}))
	_, err = d.decode("a.npz", archive.Bytes())
	assert.ErrorContains(t, err, `the file has no array for input "x"; it has y`)
}

// pattern is an image whose pixels differ.
func pattern(height, width int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.SetNRGBA(x, y, color.NRGBA{byte(10*y + x), byte(100 + x), byte(200 + y), 255})
		}
	}
	return m
}

func encodePNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, m))
	return file.Bytes()
}

func TestImages(t *testing.T) {
	const uint8Last = `{"name": "x", "dtype": "uint8", "shape": ["N", 2, 2, 3]}`
	const grayscale = `{"name": "x", "dtype": "uint8", "shape": [1, 1, "H", "H"]}`
	transparent := pattern(2, 2)
	transparent.SetNRGBA(1, 1, color.NRGBA{11, 101, 201, 7})
	for _, c := range []struct {
		inputs string
		images Images
		file   []byte
		want   string
	}{
		{uint8Last, Images{}, encodePNG(t, pattern(2, 2)), "x [1 2 2 3] [0 100 200 1 101 200 10 100 201 11 101 201]"},
		{uint8Last, Images{}, encodePNG(t, transparent), "x [1 2 2 3] [0 100 200 1 101 200 10 100 201 11 101 201]"},
		{uint8Last, Images{Crop: []int{2}}, encodePNG(t, pattern(4, 5)),
			// torchvision rounds the half of 5-2 to 2
			"x [1 2 2 3] [12 102 201 13 103 201 22 102 202 23 103 202]"},
		{uint8Last, Images{Crop: []int{2, 2}}, encodePNG(t, pattern(1, 2)),
			"x [1 2 2 3] [0 100 200 1 101 200 0 0 0 0 0 0]"},
		{grayscale, Images{}, encodePNG(t, pattern(1, 1)), "x [1 1 1 1] [82]"},
		{photos, Images{Mean: []float64{0.5}, Deviation: []float64{0.5, 0.25, 1}},
			encodePNG(t, image.NewGray(image.Rect(0, 0, 2, 2))),
			"x [1 3 2 2] [-1 -1 -1 -1 -2 -2 -2 -2 -0.5 -0.5 -0.5 -0.5]"},
		{grayscale, Images{Resize: []int{2}}, encodePNG(t, image.NewGray(image.Rect(0, 0, 60, 50))), "x [1 1 2 2] [0 0 0 0]"},

		{photos, Images{}, encodePNG(t, pattern(3, 2)), "the image has 3 x 2 pixels"},
		{uint8Last, Images{Mean: []float64{1}}, encodePNG(t, pattern(2, 2)), "so Mean and Deviation cannot be applied"},
		{photos, Images{Resize: []int{1 << 15}}, encodePNG(t, pattern(1, 1<<15)), "the image would be resized"},
		{photos, Images{}, hugePNG(), "the limit is 89478485 pixels"},
		{oneInput, Images{}, encodePNG(t, pattern(1, 1)), "images need [N, C, H, W]"},
		{`{"name": "x", "dtype": "float32", "shape": ["N", 4, 2, 2]}`, Images{}, nil, "images have 1 or 3 channels"},
		{`{"name": "x", "dtype": "int64", "shape": ["N", 3, 2, 2]}`, Images{}, nil, "images need float32 or uint8"},
		{photos, Images{Resize: []int{1, 1 << 15}}, encodePNG(t, pattern(1<<15, 1)), "by way of 32768 x 32768"},
	} {
		d := decoderOf(t, c.inputs)
		d.images = c.images
		in, err := d.decode("a.png", c.file)
		if err != nil {
			assert.ErrorContains(t, err, c.want)
			continue
		}
		assert.Equal(t, c.want, textOf(in))
	}
}

// hugePNG returns a file of a few bytes with the header of a large image.
func hugePNG() []byte {
	header := append([]byte("IHDR"), 0, 1, 0, 0, 0, 1, 0, 0, 8, 0, 0, 0, 0)
	file := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), uint32(len(header)-4))
	return binary.BigEndian.AppendUint32(append(file, header...), crc32.ChecksumIEEE(header))
}

// TestDecodeImage: formats other than PNG and JPEG are refused although package image can decode them here.
func TestDecodeImage(t *testing.T) {
	gray := image.NewGray(image.Rect(0, 0, 2, 3))
	gray.Pix[5] = 7
	picture, err := DecodeImage(encodePNG(t, gray))
	require.NoError(t, err)
	assert.Equal(t, gray, picture)
	_, err = DecodeImage(hugePNG())
	require.ErrorContains(t, err, "the limit is 89478485 pixels")
	var file bytes.Buffer
	require.NoError(t, gif.Encode(&file, gray, nil))
	_, err = DecodeImage(file.Bytes())
	require.EqualError(t, err, "the format of the image is gif: want PNG or JPEG")
}

// TestJPEG: resizing averages all pixels of a larger image.
func TestJPEG(t *testing.T) {
	board := image.NewGray(image.Rect(0, 0, 64, 64))
	for i := range board.Pix {
		board.Pix[i] = byte(255 * ((i ^ i>>6) & 1))
	}
	var file bytes.Buffer
	require.NoError(t, jpeg.Encode(&file, board, &jpeg.Options{Quality: 100}))
	d := decoderOf(t, photos)
	d.images = Images{Resize: []int{2, 2}}
	in, err := d.decode("a.JPG", file.Bytes())
	require.NoError(t, err)
	for i := range 12 {
		assert.InDelta(t, 0.5, in["x"].At(0, i/4, i/2%2, i%2).Float(), 0.01)
	}
}

// TestSmoothChroma compares colors with Pillow's: see testdata/generate.py.
func TestSmoothChroma(t *testing.T) {
	for name, ratio := range map[string]image.YCbCrSubsampleRatio{"420": image.YCbCrSubsampleRatio420,
		"422": image.YCbCrSubsampleRatio422, "440": image.YCbCrSubsampleRatio440, "narrow": image.YCbCrSubsampleRatio420} {
		decode := func(file string) image.Image {
			data, err := os.ReadFile(filepath.Join("testdata", file))
			require.NoError(t, err)
			picture, _, err := image.Decode(bytes.NewReader(data))
			require.NoError(t, err)
			return picture
		}
		source := decode(name + ".jpg").(*image.YCbCr)
		require.Equal(t, ratio, source.SubsampleRatio)
		want := scale(decode(name+".png"), source.Rect.Dy(), source.Rect.Dx())
		assert.Equal(t, want, toRGBLikeLibjpeg(source), name)
	}
}

// FuzzDecode: contents give inputs or an error.
func FuzzDecode(f *testing.F) {
	for i, text := range []string{"1,2\n", "[1,2]", `{"x": [1, 2]}`} {
		f.Add(uint8(i), []byte(text))
	}
	f.Add(uint8(4), encodePNG(f, pattern(2, 2)))
	names := []string{"a.csv", "a.jsonl", "a.npy", "a.npz", "a.png", "a.jpg"}
	d, images := decoderOf(f, oneInput), decoderOf(f, photos)
	f.Fuzz(func(t *testing.T, format uint8, data []byte) {
		name := names[int(format)%len(names)]
		use := d
		if strings.HasSuffix(name, "g") {
			use = images
		}
		if in, err := use.decode(name, data); err == nil && in["x"] == nil {
			t.Errorf("%s %q: there is neither an input nor an error", name, data)
		}
	})
}

// TestResample compares bytes with Pillow's: see testdata/generate.py.
func TestResample(t *testing.T) {
	decode := func(file string) *image.RGBA {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		picture, err := DecodeImage(data)
		require.NoError(t, err)
		return scale(picture, picture.Bounds().Dy(), picture.Bounds().Dx())
	}
	source := decode("noise.png")
	files, err := filepath.Glob("testdata/noise_*.png")
	require.NoError(t, err)
	assert.Len(t, files, 6)
	for _, file := range files {
		want := decode(filepath.Base(file))
		assert.Equal(t, want, scale(source, want.Rect.Dy(), want.Rect.Dx()), file)
	}
}
