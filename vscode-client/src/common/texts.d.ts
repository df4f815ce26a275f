// Files that are bundled as the text they are.
declare module "*.py" {
  const text: string;
  export default text;
}
