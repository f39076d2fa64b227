package term

import (
	"bytes"
	"fmt"
	"testing"
)

// TestOutput writes text in one piece and byte by byte.
func TestOutput(t *testing.T) {
	red := Display{color: true}.Paint(errorStyle, "a\x1b[1mb")
	for text, want := range map[string]string{
		"":                               "",
		"a\tb\n層é👍":                      "a\tb\n層é👍",
		"\x1b[31m\x07\r\x00\x7f":         `\u001b[31m\u0007\u000d\u0000\u007f`,
		"\u009b1m\u0085":                 `\u009b1m\u0085`,
		"\x9b1m\xff\xe5\xb1":             `\x9b1m\xff\xe5\xb1`, // not UTF-8; the end of a character is missing
		"\xe5\xb1\xe5\xb1\xa4\xc0\x80":   `\xe5\xb1` + "層" + `\xc0\x80`,
		"\u202eabc\u2066\u200f\u061c":    `\u202eabc\u2066\u200f\u061c`,
		"\u2028\u2029\u200b\ufeff\u00ad": `\u2028\u2029\u200b\ufeff\u00ad`,
		"\U000e0041":                     `\udb40\udc41`,
		red + "c":                        "\x1b[1;31ma" + `\u001b[1mb` + "\x1b[0mc",
		string(styleMark[:5]) + "x":      `\u001b` + string(styleMark[1:5]) + "x",
		"a" + string(styleMark) + "1;31": `a\u001b` + string(styleMark[1:]) + "1;31",
		"x\x1b":                          `x\u001b`,
	} {
		for _, size := range []int{1, 2, 3, 1000} {
			var got bytes.Buffer
			out := NewOutput(&got)
			for i := 0; i < len(text); i += size {
				part := text[i:min(i+size, len(text))]
				if n, err := fmt.Fprint(out, part); n != len(part) || err != nil {
					t.Errorf("%q: %d, %v", text, n, err)
				}
			}
			if err := out.End(); err != nil || got.String() != want {
				t.Errorf("%q in pieces of %d: got %q, want %q, %v", text, size, got.String(), want, err)
			}
		}
	}
}
