package graphfile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const sound = `{"a": [1, -2.5e-3, "t\u00e9xt \" \\", {"b": true, "c": null}], "d": {}, "e": [], "f": "ü", "g": false, "h": [[0], [1.0E+2]]}`

// checkDiagnosis demands that diagnose finds no mistake in text that the library accepts, and one within the
// file in text that it rejects.
func checkDiagnosis(t *testing.T, text []byte) {
	t.Helper()
	m := diagnose(text, func(int) string { return "here" })
	valid := jsontext.Value(text).IsValid()
	switch {
	case valid && m != nil:
		t.Errorf("%q: %d: %s", text, m.offset, m.text)
	case !valid && m != nil && (m.offset < 0 || m.offset > len(text) || m.text == ""):
		t.Errorf("%q: place %d", text, m.offset)
	case !valid && m == nil && !beyond(text):
		t.Errorf("%q: no mistake is found", text)
	}
}

// beyond reports mistakes that diagnose leaves to the library: half a surrogate pair, keys that are equal
// only after unescaping, and text after the value.
func beyond(text []byte) bool {
	d := jsontext.NewDecoder(strings.NewReader(string(text)))
	_, err := d.ReadValue()
	return err == nil || strings.Contains(string(text), `\u`)
}

func TestMistakesOfSyntaxAreFound(t *testing.T) {
	checkDiagnosis(t, []byte(sound))
	r := rand.New(rand.NewPCG(7, 8))
	alphabet := `{}[],:"'\/*#.+-eE019 tfnuNI` + "\n\x00\xff"
	for range 20000 {
		text := []byte(sound)
		for range 1 + r.IntN(2) {
			at := r.IntN(len(text))
			c := alphabet[r.IntN(len(alphabet))]
			switch r.IntN(4) {
			case 0:
				text[at] = c
			case 1:
				text = append(text[:at], text[at+1:]...)
			case 2:
				text = append(text[:at], append([]byte{c}, text[at:]...)...)
			default:
				text = text[:at+1]
			}
		}
		checkDiagnosis(t, text)
	}
}

func FuzzMistakesOfSyntax(f *testing.F) {
	f.Add([]byte(sound))
	f.Add([]byte(`{"a": .5, 'b': NaN, // c`))
	f.Fuzz(func(t *testing.T, text []byte) { checkDiagnosis(t, text) })
}

func TestDeepNestingIsRefused(t *testing.T) {
	m := diagnose([]byte(strings.Repeat("[", 1<<20)), func(at int) string { return fmt.Sprint(at) })
	if m == nil || m.text != "lists and objects are nested too deep" {
		t.Errorf("got %+v", m)
	}
}
