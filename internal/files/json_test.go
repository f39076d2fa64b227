package files

import "testing"

// Errors name the place in the document, and use the words of JSON instead of Go's.
func TestJSON(t *testing.T) {
	type document struct {
		Name  string `json:"name"`
		List  []int  `json:"list"`
		Inner *struct {
			Part map[string]bool `json:"part"`
		} `json:"inner"`
		Size uint8 `json:"size"`
	}
	for text, want := range map[string]string{
		`{"name": "x", "list": [1], "inner": {"part": {"a": true}}}`: "",
		` {} `:                          "",
		``:                              "the file is empty",
		"\n PK":                         "the text is not JSON",
		`[1, 2]`:                        "line 1, column 1: found a list, want an object",
		"{\n \"list\": 3}":              "line 2, column 10: list: found the number, want a list",
		`{"list": [1, 2.5]}`:            "line 1, column 16: list: found the number 2.5, want a whole number",
		`{"inner": {"part": {"a": 1}}}`: "line 1, column 26: inner.part: found the number, want true or false",
		`{"inner": {"part": "a"}}`:      "line 1, column 22: inner.part: found a string, want an object",
		`{"size": -1}`:                  "line 1, column 11: size: found the number -1, want a whole number from 0 on",
		`{"name": true}`:                "line 1, column 13: name: found true or false, want a string",
		"{\n \"other\": 1}":             `line 2, column 2: unknown key "other"`,
		`{"name": "other", "other": 1}`: `unknown key "other"`,
		"{}\n  {}":                      "line 2, column 3: something follows the document",
		`{"name": "x"`:                  "line 1, column 13: the text ends before the document does",
		"{\"name\":\n x}":               "line 2, column 2: invalid character 'x' looking for beginning of value",
	} {
		got := ""
		if err := DecodeJSON([]byte(text), new(document)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPartOfJSON checks that a part of a document is decoded, and that errors are those of whole documents.
func TestPartOfJSON(t *testing.T) {
	var part struct {
		List []int `json:"list"`
	}
	if err := DecodePartOfJSON([]byte(`{"other": 1, "list": [2]}`), &part); err != nil || len(part.List) != 1 {
		t.Errorf("%v, %v", part, err)
	}
	err := DecodePartOfJSON([]byte(`[1]`), &part)
	if want := "line 1, column 1: found a list, want an object"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}
