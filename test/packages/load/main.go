// Command load is the exporter of the machine that the packages are installed on.
// It serves on 127.0.0.1:9999 the metric "load", whose value is what the file that
// it is given holds at the moment.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	err := http.ListenAndServe("127.0.0.1:9999", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		value, err := os.ReadFile(os.Args[1])
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "# TYPE load gauge\nload %s\n", value)
	}))
	fmt.Fprintln(os.Stderr, "load:", err)
	os.Exit(1)
}
