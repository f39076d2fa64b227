package tests

import (
	"encoding/binary"
	"math"
	"strings"

	ort "github.com/graphrun/graphrun/compat/onnxruntime"
)

// message is an encoded protobuf message. Its methods add fields of ONNX's messages by number.
type message []byte

func (m message) int(number int, v int64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(number)<<3), uint64(v))
}

func (m message) bytes(number int, data []byte) message {
	m = binary.AppendUvarint(m, uint64(number)<<3|2)
	return append(binary.AppendUvarint(m, uint64(len(data))), data...)
}

func (m message) text(number int, s string) message { return m.bytes(number, []byte(s)) }

// join returns the fields of all messages.
func join(messages ...message) (all message) {
	for _, m := range messages {
		all = append(all, m...)
	}
	return all
}

// modelOf returns a model with the fields of its graph.
func modelOf(graph ...message) []byte {
	return join(message{}.int(1, 8).text(2, "tests").text(4, "org.example").int(5, 7).text(6, "A model of the tests."),
		message{}.bytes(7, join(graph...).text(2, "network")),
		message{}.bytes(8, message{}.int(2, 17)), message{}.bytes(8, message{}.text(1, "ai.onnx.ml").int(2, 3)),
		message{}.bytes(14, message{}.text(1, "classes").text(2, "cat,dog")), message{}.bytes(14, message{}.text(1, "empty")))
}

// node returns a node of a graph. Names are separated by spaces. Operators with a point have a domain.
func node(operator, inputs, outputs string, attributes ...message) message {
	m := message{}
	for _, name := range strings.Fields(inputs) {
		m = m.text(1, name)
	}
	for _, name := range strings.Fields(outputs) {
		m = m.text(2, name)
	}
	if domain, name, ok := strings.Cut(operator, ":"); ok {
		m, operator = m.text(7, domain), name
	}
	return message{}.bytes(1, join(m.text(4, operator), join(attributes...)))
}

func attribute(name string, value any) message {
	m := message{}.text(1, name)
	switch v := value.(type) {
	case int:
		m = m.int(3, int64(v)).int(20, 2)
	case []int64:
		for _, i := range v {
			m = m.int(8, i)
		}
		m = m.int(20, 7)
	case []string:
		for _, s := range v {
			m = m.text(9, s)
		}
		m = m.int(20, 8)
	case string:
		m = m.text(4, v).int(20, 3)
	}
	return message{}.bytes(5, m)
}

// port returns the name and the type of a tensor. Sizes are numbers or strings.
func port(name string, elements ort.TensorElementDataType, sizes []any) message {
	shape := message{}
	for _, size := range sizes {
		switch size := size.(type) {
		case int:
			shape = shape.bytes(1, message{}.int(1, int64(size)))
		case string:
			shape = shape.bytes(1, message{}.text(2, size))
		}
	}
	tensor := message{}.int(1, int64(elements)).bytes(2, shape)
	return message{}.text(1, name).bytes(2, message{}.bytes(1, tensor))
}

func input(name string, elements ort.TensorElementDataType, sizes ...any) message {
	return message{}.bytes(11, port(name, elements, sizes))
}

func output(name string, elements ort.TensorElementDataType, sizes ...any) message {
	return message{}.bytes(12, port(name, elements, sizes))
}

// maps returns an output that is a sequence of maps to floats.
func maps(name string, keys ort.TensorElementDataType) message {
	values := message{}.bytes(1, message{}.int(1, ort.TensorElementDataTypeFloat))
	sequence := message{}.bytes(1, message{}.bytes(5, message{}.int(1, int64(keys)).bytes(2, values)))
	return message{}.bytes(12, message{}.text(1, name).bytes(2, message{}.bytes(4, sequence)))
}

// weights returns an initializer of floats.
func weights(name string, data []float32, sizes ...int64) message {
	m := message{}
	for _, size := range sizes {
		m = m.int(1, size)
	}
	raw := []byte{}
	for _, f := range data {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
	}
	return message{}.bytes(5, m.int(2, ort.TensorElementDataTypeFloat).text(8, name).bytes(9, raw))
}
