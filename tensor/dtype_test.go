package tensor

import (
	"errors"
	"math"
	"strings"
	"testing"
)

const everyDType = "bool, uint8, int8, int16, int32, int64, uint16, uint32, uint64, float16, bfloat16, float32, " +
	"float64, complex64, complex128"

func TestNamesOfDTypes(t *testing.T) {
	for _, d := range DTypes() {
		if got, err := ParseDType(d.String()); got != d || err != nil {
			t.Errorf("%v: got %v, %v", d, got, err)
		}
	}
	for name, want := range map[string]string{
		"f32": "float32", "half": "float16", "torch.float32": "float32", "float": "float32", "double": "float64",
		"torch.long": "int64",
		"np.int8":    "int8", "Float32": "float32", "FLOAT": "float32", "bf16": "bfloat16", "BF16": "bfloat16",
		"torch.half": "float16",
		"int":        "int32", "uint": "uint32", "int64_t": "int64", "torch.FloatTensor": "float32", "cfloat": "complex64",
		"boolean": "bool",
		"flaot32": "float32", "torch.flot64": "float64", "unit8": "uint8", "bol": "bool", "comlex64": "complex64",
		"float31": "", "": "", "string": "", "float8": "",
	} {
		hint := ""
		if want != "" {
			hint = "; did you mean " + want + "?"
		}
		_, err := ParseDType(name)
		if text := `unknown dtype "` + name + `": want one of ` + everyDType + hint; err == nil || err.Error() != text {
			t.Errorf("%q: got %v, want %s", name, err, text)
		}
	}
}

func TestNamesOfMemoryFormats(t *testing.T) {
	for name, want := range map[string]string{"nhwc": "channels_last", "NHWC": "channels_last",
		"channelsLast":            "channels_last",
		"torch.contiguous_format": "contiguous", "NCHW": "contiguous", "channels-last-3d": "channels_last_3d",
		"channel_last":    "channels_last",
		"channels_last3d": "channels_last_3d", "contigous": "contiguous", "rows": ""} {
		_, err := ParseMemoryFormat(name)
		text := `unknown memory format "` + name + `": want contiguous, channels_last, channels_last_3d or preserve`
		if want != "" {
			text += "; did you mean " + want + "?"
		}
		if err == nil || err.Error() != text {
			t.Errorf("%q: got %v, want %s", name, err, text)
		}
	}
}

func TestTooManyElements(t *testing.T) {
	const big = min(1<<32, math.MaxInt)
	for _, shape := range [][]int{{big, big, big, big}, {big, big}, {min(1<<62, math.MaxInt), 4},
		{min(1<<46, math.MaxInt)}} {
		err := New(Float32, shape...).Check()
		if err == nil || !strings.HasPrefix(err.Error(), "shape "+ListString(shape)+" has too many elements") {
			t.Errorf("%v: %v", shape, err)
		}
	}
	if err := New(Float32, min(1<<45, math.MaxInt)).Check(); err != nil {
		t.Error(err)
	}
}

func TestDimensionsOutOfRangeAreKnown(t *testing.T) {
	_, err := WrapDim(5, 2)
	var dim *DimError
	if !errors.As(err, &dim) || dim.Dim != 5 || err.Error() != "Dimension out of range (expected to be in range of [-2, "+
		"1], but got 5)" {
		t.Errorf("got %#v", err)
	}
}
