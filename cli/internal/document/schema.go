package document

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Schema returns the JSON Schema (2020-12) of a document. t is the struct type of the document. For example, the field
//
//	Name string `json:"name" doc:"The name."`
//
// becomes the property "name": {"type": "string", "description": "The name."}, and "name" is required. Struct types
// become definitions under "$defs".
//
// If a field has the struct tag `of:"NAME"`, allowedStrings[NAME] returns the strings that the field may contain. The
// version of the document is N if t has a field Version with the struct tag `const:"N"`, and otherwise [Version].
func Schema(t reflect.Type, title string, allowedStrings map[string]func() []string) map[string]any {
	builder := schemaBuilder{defs: map[string]any{}, allowedStrings: allowedStrings}
	root := builder.object(t)
	version := Version
	if f, ok := t.FieldByName("Version"); ok && f.Tag.Get("const") != "" {
		version, _ = strconv.Atoi(f.Tag.Get("const"))
	}
	root["properties"].(map[string]any)["version"] = map[string]any{"const": version,
		"description": "The version of the document's format. It grows with each incompatible change."}
	if required := root["required"].([]string); !slices.Contains(required, "version") {
		root["required"] = append([]string{"version"}, required...)
	}
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", title
	root["$defs"] = builder.defs
	return root
}

// schemaBuilder collects the definitions of the structs in a document. Its methods call each other recursively: object
// for a struct, property for a field of the struct, and value for the type of the field.
type schemaBuilder struct {
	defs           map[string]any
	allowedStrings map[string]func() []string // by the name in the struct tag `of`
}

// object returns the schema of a struct. The schema allows only the keys of the struct. If a struct is embedded by a
// pointer, its keys are all present or all absent.
func (b schemaBuilder) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	keysByPointer := map[int][]string{} // the keys of each embedded pointer, by its field index
	for _, f := range reflect.VisibleFields(t) {
		found, ok := memberOf(f)
		if !ok {
			continue
		}
		schema := b.property(found)
		schema["description"] = f.Tag.Get("doc")
		properties[found.key] = schema
		switch {
		case found.optional: // the key may be absent
		case isInEmbeddedPointer(t, f.Index):
			keysByPointer[f.Index[0]] = append(keysByPointer[f.Index[0]], found.key)
		default:
			required = append(required, found.key)
		}
	}
	if len(properties) == 0 { // a struct without listed keys, such as one that encodes itself, may have any keys
		return map[string]any{"type": "object"}
	}
	schema := map[string]any{"type": "object", "properties": properties, "required": required,
		"additionalProperties": false}
	if len(keysByPointer) > 0 {
		dependentRequired := map[string]any{} // each key requires all keys of its struct
		for _, keys := range keysByPointer {
			for _, key := range keys {
				dependentRequired[key] = keys
			}
		}
		schema["dependentRequired"] = dependentRequired
	}
	return schema
}

// property returns the schema of the value of a key.
func (b schemaBuilder) property(key member) map[string]any {
	t := key.field.Type
	_, nullable := reflect.Zero(t).Interface().(interface{ mayBeNull() })
	if t.Kind() == reflect.Pointer {
		t, nullable = t.Elem(), !key.optional // an optional key with a nil pointer is absent
	}
	schema := b.value(t, key.field.Tag.Get("of"))
	if nullable {
		schema = orNull(schema)
	}
	return schema
}

// value returns the schema of a type. If only some strings are allowed, allowedKey is their key in allowedStrings;
// otherwise allowedKey is empty.
func (b schemaBuilder) value(t reflect.Type, allowedKey string) map[string]any {
	if stream, ok := reflect.Zero(t).Interface().(anyStream); ok {
		return map[string]any{"type": "array", "items": b.value(reflect.TypeOf(stream.Item()).Elem(), allowedKey)}
	}
	if custom, ok := reflect.Zero(t).Interface().(interface{ JSONSchema() map[string]any }); ok {
		return custom.JSONSchema()
	}
	switch t.Kind() {
	case reflect.Struct:
		name := definitionName(t)
		if b.defs[name] == nil {
			b.defs[name] = map[string]any{} // set before the fields are visited, because the struct may be recursive
			b.defs[name] = b.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + name}
	case reflect.Pointer:
		return orNull(b.value(t.Elem(), allowedKey))
	case reflect.Slice:
		return map[string]any{"type": "array", "items": b.value(t.Elem(), allowedKey)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": b.value(t.Elem(), allowedKey)}
	case reflect.String:
		if allowedKey != "" {
			return map[string]any{"enum": b.allowedStrings[allowedKey]()}
		}
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Interface:
		return map[string]any{} // anything
	}
	panic("graphrun: a document has a field of type " + t.String() + ", which has no JSON schema")
}

// isInEmbeddedPointer reports whether a field of t is reached through an embedded pointer. index is the field's index
// sequence of package reflect.
func isInEmbeddedPointer(t reflect.Type, index []int) bool {
	return slices.ContainsFunc(index[:len(index)-1], func(i int) bool {
		fieldType := t.Field(i).Type
		if fieldType.Kind() == reflect.Pointer {
			return true
		}
		t = fieldType // the next index is a field of this struct
		return false
	})
}

// definitionName returns the name of a struct type in schemas. For example, stepDoc and StepReport are both named step.
func definitionName(t reflect.Type) string {
	name := strings.TrimSuffix(strings.TrimSuffix(t.Name(), "Doc"), "Report")
	return strings.ToLower(name[:1]) + name[1:]
}

// orNull returns a schema that also allows null.
func orNull(schema map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
}
