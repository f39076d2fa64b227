package command

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// CommandLine returns the command line: the command, its arguments and the flags that were set. It replaces each
// argument by its FileLabel, and each absolute path in a flag by its last element: published command lines must not
// show the user's folders.
func CommandLine(cmd *cobra.Command, args []string) string {
	words := []string{cmd.CommandPath()}
	for _, a := range args {
		words = append(words, quote(FileLabel(a)))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
			if strings.HasSuffix(f.Value.Type(), "Slice") { // a flag with a list such as A,B
				values = []string{strings.Join(values, ",")}
			}
		}
		for _, value := range values {
			if filepath.IsAbs(value) {
				value = filepath.Base(value)
			}
			switch f.NoOptDefVal { // the value of a flag that is given without one; "" if the flag requires a value
			case "":
				words = append(words, "--"+f.Name, quote(value))
			case value:
				words = append(words, "--"+f.Name)
			default: // the flag takes no separate word as its value
				words = append(words, "--"+f.Name+"="+quote(value))
			}
		}
	})
	return strings.Join(words, " ")
}

// quote quotes a word for a POSIX shell, unless all its characters are letters, digits or safe punctuation.
func quote(word string) string {
	isUnsafe := func(r rune) bool {
		isAlphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !isAlphanumeric && !strings.ContainsRune("_-.,:=/%+", r)
	}
	if word != "" && !strings.ContainsFunc(word, isUnsafe) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
