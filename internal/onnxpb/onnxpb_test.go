package onnxpb

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// inProto has the name in onnx.proto of each message whose struct has another name.
var inProto = map[string]string{"OperatorSetIDProto": "OperatorSetIdProto", "TensorType": "Tensor",
	"SequenceType": "Sequence", "MapType": "Map"}

// protoField is a field of onnx.proto.
type protoField struct {
	number   protowire.Number
	kind     string
	repeated bool
}

// readProto returns the fields and the constants of onnx.proto by "Message.field" and "Enum.NAME".
func readProto(t *testing.T) (fields map[string]protoField, constants map[string]int) {
	t.Helper()
	text, err := os.ReadFile("onnx.proto")
	require.NoError(t, err)
	block := regexp.MustCompile(`^(message|enum|oneof) (\w+) \{`)
	field := regexp.MustCompile(`^(repeated )?(\w+) (\w+) = (\d+)( \[packed = true\])?;`)
	constant := regexp.MustCompile(`^(\w+) = (\d+);`)
	fields, constants = map[string]protoField{}, map[string]int{}
	var open []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
		switch {
		case block.MatchString(line):
			name := block.FindStringSubmatch(line)[2]
			if strings.HasPrefix(line, "oneof") {
				name = open[len(open)-1]
			}
			open = append(open, name)
		case strings.HasPrefix(line, "}"):
			open = open[:len(open)-1]
		case field.MatchString(line):
			f := field.FindStringSubmatch(line)
			n, _ := strconv.Atoi(f[4])
			fields[open[len(open)-1]+"."+f[3]] = protoField{protowire.Number(n), f[2], f[1] != ""}
		case constant.MatchString(line):
			c := constant.FindStringSubmatch(line)
			constants[open[len(open)-1]+"."+c[1]], _ = strconv.Atoi(c[2])
		}
	}
	return fields, constants
}

// wireTypes has the wire type of each scalar type and enumeration of onnx.proto. Messages are bytes.
var wireTypes = map[string]protowire.Type{"int32": protowire.VarintType, "int64": protowire.VarintType,
	"uint64": protowire.VarintType, "AttributeType": protowire.VarintType, "DataLocation": protowire.VarintType,
	"float": protowire.Fixed32Type, "double": protowire.Fixed64Type}

// nonzero sets v to a value that is not omitted.
func nonzero(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		nonzero(v.Index(0))
	case reflect.String:
		v.SetString("a")
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(1)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	default:
		v.SetFloat(1)
	}
}

// TestSchema compares the numbers and types of all fields with onnx.proto. It also encodes and decodes each field.
func TestSchema(t *testing.T) {
	fields, constants := readProto(t)
	capital := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	seen := map[reflect.Type]bool{}
	var check func(m reflect.Type)
	check = func(m reflect.Type) {
		if seen[m] {
			return
		}
		seen[m] = true
		for i := range m.NumField() {
			x := reflect.New(m)
			value := x.Elem().Field(i)
			nonzero(value)
			b := Marshal(x.Interface().(Message))
			number, kind, n := protowire.ConsumeTag(b)
			require.Positive(t, n, m.Field(i).Name)
			message := m.Name()
			if name, ok := inProto[message]; ok {
				message = name
			}
			name := message + "." + strings.ToLower(capital.ReplaceAllString(m.Field(i).Name, "${1}_$2"))
			want, ok := fields[name]
			require.True(t, ok, name)
			assert.Equal(t, want.number, number, name)
			wire, scalar := wireTypes[want.kind]
			if !scalar || want.repeated {
				wire = protowire.BytesType
			}
			assert.Equal(t, wire, kind, name)
			list := value.Kind() == reflect.Slice && value.Type().Elem().Kind() != reflect.Uint8
			assert.Equal(t, want.repeated, list || value.Type() == reflect.TypeFor[[][]byte](), name)
			y := reflect.New(m)
			require.NoError(t, Unmarshal(b, y.Interface().(Message)), name)
			assert.Equal(t, x.Interface(), y.Interface(), name)
			if e := value.Type(); e.Kind() == reflect.Pointer && e.Elem().Kind() == reflect.Struct {
				check(e.Elem())
			} else if list && e.Elem().Kind() == reflect.Pointer {
				check(e.Elem().Elem())
			}
		}
	}
	check(reflect.TypeFor[ModelProto]())
	assert.Len(t, seen, 17)
	for i, name := range dataTypes {
		assert.Equal(t, i, constants["DataType."+name], name)
	}
	for i, name := range attributeTypes {
		assert.Equal(t, i, constants["AttributeType."+name], name)
	}
	assert.Equal(t, int(External), constants["DataLocation.EXTERNAL"])
	assert.Equal(t, "INT4", Int4.String())
	assert.Equal(t, "STRINGS", AttributeStrings.String())
	assert.Equal(t, "99", DataType(99).String())
	assert.Equal(t, "-1", AttributeType(-1).String())
	d, ok := DataTypeOf("BFLOAT16")
	assert.True(t, ok)
	assert.Equal(t, BFloat16, d)
	_, ok = DataTypeOf("bfloat16")
	assert.False(t, ok)
}

// field appends a field of bytes.
func field(b []byte, n protowire.Number, value ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), value)
}

// varint appends a field with a number.
func varint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

// TestUnmarshal decodes encodings that Marshal does not write.
func TestUnmarshal(t *testing.T) {
	group := protowire.AppendTag(protowire.AppendTag(nil, 99, protowire.StartGroupType), 99, protowire.EndGroupType)
	for name, c := range map[string]struct {
		data []byte
		want Message
	}{
		"both forms of a list": {varint(field(varint(nil, 1, 3), 1, 4, 0x80, 1), 1, 5),
			&TensorProto{Dims: []int64{3, 4, 128, 5}}},
		"last of two": {varint(varint(nil, 2, 3), 2, 4), &TensorProto{DataType: 4}},
		"merged messages": {field(field(nil, 7, field(nil, 2, 'a')...), 7, varint(nil, 99, 1)...),
			&ModelProto{Graph: &GraphProto{Name: "a"}}},
		"negative numbers":   {varint(nil, 2, 1<<64-7), &TensorProto{DataType: -7}},
		"long number":        {varint(nil, 2, 1<<40+5), &TensorProto{DataType: 5}},
		"unknown fields":     {append(field(varint(nil, 98, 1), 97, 0xff), group...), &TensorProto{}},
		"other wire type":    {varint(nil, 7, 1), &GraphProto{}},
		"size, then name":    {field(varint(nil, 1, 0), 2, 'N'), &Dimension{DimParam: "N"}},
		"name, then size":    {varint(field(nil, 2, 'N'), 1, 0), &Dimension{DimValue: new(int64)}},
		"tensor or sequence": {field(field(nil, 1), 4), &TypeProto{SequenceType: &SequenceType{}}},
		"sequence or tensor": {field(field(nil, 4), 1), &TypeProto{TensorType: &TensorType{}}},
	} {
		got := reflect.New(reflect.TypeOf(c.want).Elem()).Interface().(Message)
		require.NoError(t, Unmarshal(c.data, got), name)
		assert.Equal(t, c.want, got, name)
	}
	for name, data := range map[string][]byte{
		"truncated list":   field(nil, 1, 0x80),
		"truncated floats": field(nil, 4, 1, 2, 3),
		"no UTF-8":         field(nil, 8, 0xff),
		"no end":           group[:2],
		"field 0":          {2, 0},
		"truncated":        field(nil, 9, 1, 2, 3)[:4],
		"within a message": field(nil, 13, 0xff),
	} {
		assert.ErrorIs(t, Unmarshal(data, &TensorProto{}), ErrInvalid, name)
	}
	kept := field(nil, 9, 1, 2, 3)
	m := &TensorProto{}
	require.NoError(t, Unmarshal(kept, m))
	clear(kept)
	assert.Equal(t, []byte{1, 2, 3}, m.RawData)
}

// TestDepth decodes messages that are nested to the maximum depth, and one level deeper.
func TestDepth(t *testing.T) {
	nested := func(depth int) []byte {
		var prefixes [][]byte
		size := 0
		for range depth {
			n := protowire.Number(1) // the member of a sequence
			if len(prefixes)%2 == 1 {
				n = 4
			}
			b := protowire.AppendVarint(protowire.AppendTag(nil, n, protowire.BytesType), uint64(size))
			prefixes, size = append(prefixes, b), size+len(b)
		}
		var data bytes.Buffer
		for i := len(prefixes) - 1; i >= 0; i-- {
			data.Write(prefixes[i])
		}
		return data.Bytes()
	}
	assert.NoError(t, Unmarshal(nested(maxDepth), &TypeProto{}))
	assert.ErrorIs(t, Unmarshal(nested(maxDepth+1), &SequenceType{}), ErrInvalid)
}
