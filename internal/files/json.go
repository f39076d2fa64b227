package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// DecodeJSON decodes a text, which must be one JSON document, into the value that result points to. It rejects unknown
// keys, and text after the document. Errors state the line, the column and the mistake, without names of Go types.
func DecodeJSON(text []byte, result any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decodeJSON(decoder, text, result)
}

// DecodePartOfJSON decodes a text as DecodeJSON does. The result may lack keys of the document, which are ignored.
func DecodePartOfJSON(text []byte, result any) error {
	return decodeJSON(json.NewDecoder(bytes.NewReader(text)), text, result)
}

// decodeJSON decodes the text that decoder reads, and rewords the errors.
func decodeJSON(decoder *json.Decoder, text []byte, result any) error {
	if err := decoder.Decode(result); err != nil {
		return reword(text, err)
	}
	unread := text[decoder.InputOffset():]
	if len(bytes.TrimSpace(unread)) == 0 {
		return nil
	}
	offset := int64(len(text) - len(bytes.TrimLeft(unread, " \t\r\n")))
	return errorAt(text, offset, "something follows the document")
}

// reword returns an error of package json with the line, the column and the mistake.
func reword(text []byte, err error) error {
	var syntaxErr *json.SyntaxError
	var typeErr *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("the file is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errorAt(text, int64(len(text)), "the text ends before the document does")
	case errors.As(err, &syntaxErr) && len(bytes.TrimSpace(text[:max(0, syntaxErr.Offset-1)])) == 0:
		return errors.New("the text is not JSON") // the first character is wrong
	case errors.As(err, &syntaxErr):
		return errorAt(text, syntaxErr.Offset-1, syntaxErr.Error())
	case errors.As(err, &typeErr):
		mistake := fmt.Sprintf("found %s, want %s", jsonValue(typeErr.Value), jsonType(typeErr.Type))
		if typeErr.Field != "" {
			mistake = typeErr.Field + ": " + mistake
		}
		return errorAt(text, typeErr.Offset-1, mistake)
	}
	if key, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown { // key is quoted
		if bytes.Count(text, []byte(key)) == 1 {
			return errorAt(text, int64(bytes.Index(text, []byte(key))), "unknown key "+key)
		}
		return errors.New("unknown key " + key) // the place is unknown
	}
	return err
}

// errorAt returns the error for a mistake at a byte offset of a text.
func errorAt(text []byte, offset int64, mistake string) error {
	before := text[:max(0, min(offset, int64(len(text))))]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Errorf("line %d, column %d: %s", line, len(before)-bytes.LastIndexByte(before, '\n'), mistake)
}

// jsonValue rewords the description of a value in an error of package json, such as "string" or "number 1.5".
func jsonValue(value string) string {
	kind, number, _ := strings.Cut(value, " ")
	switch kind {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "string":
		return "a string"
	case "bool":
		return "true or false"
	case "number":
		return strings.TrimSpace("the number " + number)
	}
	return value
}

// jsonType describes the JSON values that can be decoded to a type.
func jsonType(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on"
	}
	return "something else"
}
