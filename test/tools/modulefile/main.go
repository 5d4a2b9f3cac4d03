// Modulefile copies files from the zip file of a module to standard output, without checking the Go
// version that the module needs:
//
//	go run ./test/tools/modulefile ZIP MODULE@VERSION/FILE
package main

import (
	"archive/zip"
	"io"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: modulefile ZIP MODULE@VERSION/FILE")
	}
	if err := copyFile(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		log.Fatalf("copy %s: %v", os.Args[2], err)
	}
}

func copyFile(to io.Writer, archive, name string) error {
	reader, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	file, err := reader.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, file)
	return err
}
